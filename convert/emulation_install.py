"""What the toolchain ``arm64-emulation`` has beside its virtual environment: a sysroot, an emulator, aarch64 wheels.

All of it lies in the folder of the environment, and a run under the emulator proves it before it counts.
"""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from convert import debian_packages as debian
from convert import toolchain_env as env
from convert.emulation import NAME, OLDEST_PYTHON, Emulation, of_environment, sysroot_problem, sysroot_pythons
from convert.errors import ConvertError, InputError
from convert.logs import tail
from convert.toolchain_env import Environment, Toolchain

VARIABLE = "CONVERT_ARM64_SYSROOT"

_WAY_OUT = (
    f"set {VARIABLE} to a folder with an arm64 root filesystem that has glibc, libstdc++ and Python "
    f"3.{OLDEST_PYTHON} or newer"
)
# The second is what newer releases call the first.
_EMULATORS = ("qemu-aarch64-static", "qemu-aarch64")
# What wheels for arm64 call the systems that they run on, from the newest that is used.
_PLATFORMS = (*(f"manylinux_2_{minor}_aarch64" for minor in range(28, 16, -1)), "manylinux2014_aarch64")
# What programs are told about the processor instead of this machine's own /proc/cpuinfo: onnxruntime for arm64 crashes
# when that speaks of an x86 one. An old model, since newer ones are taken to have instructions that are lacking here.
_PROCESSOR = """\
processor\t: {}
BogoMIPS\t: 100.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd08
CPU revision\t: 3

"""
_PROOF = """
import ctypes, platform, sys
import numpy, onnxruntime, ai_edge_litert.interpreter
assert platform.machine() == "aarch64", platform.machine()
for library in sys.argv[1:]:
    ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
"""


def own_sysroot() -> Path | None:
    """The root filesystem that the user names; None where Debian packages are to be had instead.

    Raises:
        InputError: the variable ``CONVERT_ARM64_SYSROOT`` names no usable folder.
        ConvertError: this machine cannot have the toolchain.
    """
    _require_x86_linux()
    value = os.environ.get(VARIABLE)
    if value:
        folder = Path(value).expanduser().absolute()
        problem = sysroot_problem(folder)
        if problem:
            raise InputError(f"{VARIABLE} is {value!r}, which cannot be used: {problem}; {_WAY_OUT}")
        _qemu_on_path()
        return folder
    missing = debian.missing_programs()
    if missing:
        raise ConvertError(
            f"the toolchain {NAME} is made of Debian packages, and {' and '.join(missing)} cannot be found; "
            f"{_WAY_OUT}, and install qemu-user"
        )
    return None


def add(toolchain: Toolchain, folder: Path, sysroot: Path | None, run: debian.Run) -> None:
    """Put into ``folder`` what the emulation needs beside the virtual environment, and prove that it works.

    ``sysroot`` is what :func:`own_sysroot` returned.
    """
    work = folder / "work"
    work.mkdir()
    (folder / "qemu/usr/bin").mkdir(parents=True)
    if sysroot is None:
        _add_debian(toolchain, folder, work / "apt", run)
    else:
        _link_sysroot(sysroot, folder / "sysroot")
        (folder / "qemu/usr/bin/qemu-aarch64-static").symlink_to(_qemu_on_path())
    _require_sysroot(folder / "sysroot")
    (folder / "sysroot/proc").mkdir(exist_ok=True)
    processors = "".join(map(_PROCESSOR.format, range(os.cpu_count() or 1)))
    (folder / "sysroot/proc/cpuinfo").write_text(processors, encoding="utf-8")
    _add_wheels(toolchain, folder, work / "wheels", run)
    shutil.rmtree(work)
    python = env.interpreter(folder)
    _prove(of_environment(Environment(NAME, python, folder, "cache", {})), run)


def _require_x86_linux() -> None:
    machine = platform.machine()
    if sys.platform != "linux" or machine not in {"x86_64", "AMD64"}:
        advice = (
            "an arm64 machine runs arm64 artifacts as they are"
            if machine in {"aarch64", "arm64"}
            else "use such a machine for arm64"
        )
        raise ConvertError(
            f"the toolchain {NAME} is for Linux on x86-64 and this is {sys.platform} on {machine}; {advice}"
        )


def _qemu_on_path() -> Path:
    for name in _EMULATORS:
        found = shutil.which(name)
        if found:
            return Path(found).absolute()
    raise ConvertError(
        f"{VARIABLE} needs an emulator on the PATH, and neither {_EMULATORS[0]} nor {_EMULATORS[1]} is there; "
        "install qemu-user"
    )


def _add_debian(toolchain: Toolchain, folder: Path, work: Path, run: debian.Run) -> None:
    advice = f"add package sources that have it for arm64, or {_WAY_OUT}"
    archives = debian.download(toolchain.system_packages, work, run, advice)
    host = [path for path in archives if path.stem.endswith("_amd64")]
    debian.unpack([path for path in archives if path not in host], folder / "sysroot", run)
    debian.unpack(host, work / "host", run)
    # The package has an emulator for each of thirty machines, 400 MB in all.
    (folder / "qemu/usr/share").mkdir()
    shutil.move(work / "host/usr/share/doc", folder / "qemu/usr/share/doc")
    programs = folder / "qemu/usr/bin"
    for name in _EMULATORS:
        if (work / "host/usr/bin" / name).exists():
            shutil.move(work / "host/usr/bin" / name, programs / name)
    if not (programs / _EMULATORS[0]).exists():
        (programs / _EMULATORS[0]).symlink_to(_EMULATORS[1])


def _link_sysroot(theirs: Path, ours: Path) -> None:
    """Make ``ours`` show what is in ``theirs``, in which nothing is to be written; ``proc`` is for us to fill."""
    ours.mkdir()
    for entry in theirs.iterdir():
        if entry.name != "proc":
            (ours / entry.name).symlink_to(entry)


def _require_sysroot(sysroot: Path) -> None:
    problem = sysroot_problem(sysroot)
    if problem:
        raise ConvertError(f"the toolchain {NAME} could not be installed: {problem}; {_WAY_OUT}")


def _add_wheels(toolchain: Toolchain, folder: Path, work: Path, run: debian.Run) -> None:
    from convert.toolchain_install import pip_complaint

    minor = sysroot_pythons(folder / "sysroot")[-1].name.removeprefix("python3.")
    platforms = [word for name in _PLATFORMS for word in ("--platform", name)]
    abis = [word for name in (f"cp3{minor}", "abi3", "none") for word in ("--abi", name)]
    run(
        [
            *(str(env.interpreter(folder)), "-I", "-u", "-m", "pip", "download", "--no-input", "--no-deps"),
            *("--disable-pip-version-check", "--progress-bar", "off", "--only-binary=:all:"),
            *("--python-version", f"3.{minor}", "--implementation", "cp", *platforms, *abis),
            *("--dest", str(work), "--requirement", str(env.constraints_file(toolchain.foreign_wheels))),
        ],
        "",
        pip_complaint,
    )
    for wheel in sorted(work.glob("*.whl")):
        unpack_wheel(wheel, folder / "packages", toolchain.foreign_parts)


def unpack_wheel(wheel: Path, folder: Path, parts: Sequence[str] = ()) -> None:
    """Unpack ``wheel`` into ``folder``; where it has some of ``parts``, these alone and what it says of itself.

    Raises:
        ConvertError: it holds a file that would lie elsewhere, or a link.
    """
    with zipfile.ZipFile(wheel) as archive:
        wanted = set(parts) & set(archive.namelist())
        for entry in archive.infolist():
            name = PurePosixPath(entry.filename)
            linked = stat.S_ISLNK(entry.external_attr >> 16)
            if linked or name.is_absolute() or ".." in name.parts or "\\" in entry.filename:
                raise ConvertError(
                    f"{wheel.name} holds {entry.filename!r}, which is a link or lies outside; get the wheel elsewhere"
                )
            if not wanted or entry.filename in wanted or ".dist-info/" in entry.filename:
                archive.extract(entry, folder)


def _prove(emulation: Emulation, run: debian.Run) -> None:
    """Import the runtimes and load the libraries under the emulator."""

    def complaint(log: Path, code: int) -> str:
        last = tail(log, 1)
        return f"its Python fails under qemu with exit code {code} ({last[-1] if last else 'no output'})"

    # The runtime looks for the others among those that are loaded.
    order = ("libtvm_ffi.so", "libtvm_runtime.so", "libtvm_runtime_extra.so")
    libraries = [str(emulation.runtime_libraries[name]) for name in order]
    run(emulation.python_command("-c", _PROOF, *libraries), "trying arm64 programs under qemu", complaint)

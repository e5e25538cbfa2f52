"""Running arm64 programs on an x86-64 Linux machine, by qemu and the sysroot of the toolchain ``arm64-emulation``.

Nothing here needs root, a container or a kernel that knows arm64 files: every command names the emulator itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from convert.errors import InputError
from convert.toolchain_env import Environment

NAME = "arm64-emulation"
OLDEST_PYTHON = 11  # the minor version; the wheels of older ones are no longer made

_LOADER = "lib/ld-linux-aarch64.so.1"
#: The libraries that run a compiled TVM module, by file name: where they lie among the packages.
LIBRARIES = {
    "libtvm_runtime.so": "tvm/lib/libtvm_runtime.so",
    "libtvm_runtime_extra.so": "tvm/lib/libtvm_runtime_extra.so",
    "libtvm_ffi.so": "tvm_ffi/lib/libtvm_ffi.so",
}
_AARCH64 = 183  # e_machine of an ELF file
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Emulation:
    """All that is needed to link for arm64 and to run what was linked.

    Attributes:
        folder: of the environment.
        qemu: the emulator, a program of this machine.
        sysroot: root filesystem with the loader, the libraries and the Python of arm64.
        python: the emulated interpreter, inside the sysroot.
        packages: aarch64 wheels for it, unpacked.
        zig: how a command of zig starts, as in ``(*zig, "c++", "-target", "aarch64-linux-gnu")``.
    """

    folder: Path
    qemu: Path
    sysroot: Path
    python: Path
    packages: Path
    zig: tuple[str, ...]

    @property
    def runtime_libraries(self) -> dict[str, Path]:
        """The libraries that compiled TVM modules need on the device, by file name."""
        return {name: self.packages / place for name, place in LIBRARIES.items()}

    def command(
        self, program: Path | str, *args: str, cpu: str = "max", env: Mapping[str, str] = _NOTHING
    ) -> list[str]:
        """The command that runs the arm64 program ``program``, which also sees the variables ``env``.

        The emulator hands the variables of its own process on as well.
        """
        # qemu takes a comma for the end of a value, so such a variable goes the long way.
        whole = [f"{key}={value}" for key, value in env.items() if "," in value]
        split = [word for key, value in env.items() if "," not in value for word in ("-E", f"{key}={value}")]
        qemu = [str(self.qemu), "-cpu", cpu, "-L", str(self.sysroot), *split, str(program), *args]
        return ["env", *whole, *qemu] if whole else qemu

    def python_command(self, *args: str, cpu: str = "max", env: Mapping[str, str] = _NOTHING) -> list[str]:
        """The command that runs the emulated Python with ``args``; it can import what is in ``packages``."""
        path = ":".join(filter(None, (str(self.packages), env.get("PYTHONPATH"))))
        # The packages of the user are for the Python of this machine.
        return self.command(self.python, *args, cpu=cpu, env={"PYTHONNOUSERSITE": "1", **env, "PYTHONPATH": path})


def find_emulation() -> Emulation | None:
    """The emulation of the toolchain ``arm64-emulation``; None when that is not installed.

    Raises:
        InputError: the variable that names the toolchain is wrong, or the environment lacks a part.
    """
    from convert.toolchains import find  # only here: it uses this module for its own checks

    environment = find(NAME)
    return None if environment is None else of_environment(environment)


def of_environment(environment: Environment) -> Emulation:
    """What ``environment`` holds, by the folders beside its ``bin``.

    Raises:
        InputError: a part is missing or is of another kind of machine.
    """
    folder = environment.python.parent.parent
    qemu, sysroot, packages = folder / "qemu/usr/bin/qemu-aarch64-static", folder / "sysroot", folder / "packages"
    problem = sysroot_problem(sysroot)
    if not problem:
        problem = next((f"{path} is missing" for path in (qemu, packages) if not path.exists()), "")
    if problem:
        raise InputError(
            f"the toolchain {NAME} in {folder} is not whole: {problem}; make it anew with "
            f"`convert toolchain install {NAME} --force`, without a variable CONVERT_PYTHON_ARM64_EMULATION"
        )
    zig = (str(environment.python), "-m", "ziglang")
    return Emulation(folder, qemu, sysroot, sysroot_pythons(sysroot)[-1], packages, zig)


def sysroot_pythons(sysroot: Path) -> list[Path]:
    """The interpreters of ``sysroot`` that are new enough, the newest last."""
    found = {}
    for path in sysroot.glob("usr/bin/python3.*"):
        match = re.fullmatch(r"python3\.(\d+)", path.name)
        if match and int(match[1]) >= OLDEST_PYTHON and path.is_file():
            found[int(match[1])] = path
    return [found[minor] for minor in sorted(found)]


def sysroot_problem(sysroot: Path) -> str:
    """Why ``sysroot`` is no root filesystem of arm64 with a Python; empty when it is one."""
    if not sysroot.is_dir():
        return f"{sysroot} is no folder"
    if not (sysroot / _LOADER).is_file():
        return f"{sysroot} has no {_LOADER}, the loader of glibc for arm64"
    pythons = sysroot_pythons(sysroot)
    if not pythons:
        return f"{sysroot} has no usr/bin/python3.{OLDEST_PYTHON} or newer"
    if not _is_aarch64(pythons[-1]):
        return f"{pythons[-1]} is no program for arm64"
    return ""


def _is_aarch64(program: Path) -> bool:
    with program.open("rb") as file:
        header = file.read(20)
    # 64 bits, lowest byte first, and the kind of machine.
    return header[:6] == b"\x7fELF\x02\x01" and int.from_bytes(header[18:20], "little") == _AARCH64

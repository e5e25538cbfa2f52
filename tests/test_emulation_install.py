"""Installing the emulation with an apt-get, a dpkg-deb and an emulator of our own, and the real pip."""

from __future__ import annotations

import dataclasses
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.arm64 import write_debian, write_program, write_sysroot

from convert import emulation_install, toolchain_install, toolchains
from convert import toolchain_env as env
from convert.emulation import Emulation, of_environment
from convert.errors import ConvertError, InputError
from convert.toolchains import TOOLCHAINS, Environment, Toolchain

TINY = Toolchain("tiny", "for the tests", ("pip",), (), system_packages=("tiny-system",), foreign_wheels="tiny-wheels")
WAY_OUT = (
    "set CONVERT_ARM64_SYSROOT to a folder with an arm64 root filesystem that has glibc, libstdc++ and Python 3.11 "
    "or newer"
)


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, the first on the PATH, and no variable that names a sysroot."""
    monkeypatch.delenv("CONVERT_ARM64_SYSROOT", raising=False)
    monkeypatch.setenv("CONVERT_CACHE", str(tmp_path / "the cache"))
    (tmp_path / "programs").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "programs"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toolchain:
    """A toolchain with one wheel for arm64, which is looked for in the folder ``wheels`` only."""
    constraints = tmp_path / "constraints"
    constraints.mkdir()
    (constraints / "tiny.txt").touch()
    (constraints / "tiny-wheels.txt").write_text("tiny-kit==1.0\n", encoding="utf-8")
    (tmp_path / "wheels").mkdir()
    info = "tiny_kit-1.0.dist-info"
    with zipfile.ZipFile(tmp_path / "wheels/tiny_kit-1.0-cp311-cp311-manylinux_2_28_aarch64.whl", "w") as wheel:
        wheel.writestr("tiny_kit.py", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-kit\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\n")
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setattr(env, "_CONSTRAINTS", constraints)
    monkeypatch.setitem(TOOLCHAINS, "tiny", TINY)
    for key, value in {
        "NO_INDEX": "1",
        "FIND_LINKS": (tmp_path / "wheels").as_uri(),
        "CONFIG_FILE": os.devnull,
    }.items():
        monkeypatch.setenv(f"PIP_{key}", value)
    return TINY


def install() -> Emulation:
    return of_environment(toolchains.install("tiny", lambda _: None))


def add(folder: Path) -> Emulation:
    """The part of an installation that is not the virtual environment, into ``folder``."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").symlink_to(sys.executable)
    log = folder / "log"

    def run(command: list[str], doing: str, why: Callable[[Path, int], str]) -> None:
        toolchain_install._run(command, TINY, log, lambda _: None, doing, why)

    emulation_install.add(TINY, folder, emulation_install.own_sysroot(), run)
    return of_environment(Environment("tiny", folder / "bin/python", folder, "cache", {}))


def assert_nothing_is_left() -> None:
    assert toolchains.find("tiny") is None
    assert [path for path in env.home("tiny").iterdir() if path.is_dir()] == []


def test_an_installation_is_whole(tiny: Toolchain, programs: Path) -> None:
    write_debian(programs, qemu='#!/bin/sh\necho "emulated: $*"\n')
    made = install()
    assert sorted(path.name for path in made.folder.iterdir()) == sorted(
        {"bin", "complete", "include", "lib", "lib64", "packages", "pyvenv.cfg", "qemu", "sysroot"}
    )
    assert (made.packages / "tiny_kit.py").is_file()
    assert (made.sysroot / "usr/lib/absolute").readlink() == Path("../bin/python3.11")
    assert (made.sysroot / "proc/cpuinfo").read_text(encoding="utf-8").startswith("processor\t: 0\n")
    assert [path.name for path in (made.folder / "qemu/usr/bin").iterdir()] == ["qemu-aarch64-static"]
    log = env.log_file("tiny").read_text(encoding="utf-8")
    assert "install --download-only tiny-system\n" in log
    assert f"emulated: -cpu max -L {made.sysroot} -E PYTHONNOUSERSITE=1" in log


def test_the_newer_name_of_the_emulator_will_do(tiny: Toolchain, programs: Path, tmp_path: Path) -> None:
    write_debian(programs)
    script = (programs / "dpkg-deb").read_text(encoding="utf-8")
    write_program(programs, "dpkg-deb", script.replace("qemu-aarch64-static", "qemu-aarch64"))
    assert add(tmp_path / "made").qemu.resolve().name == "qemu-aarch64"


def test_packages_that_cannot_be_had_are_said_with_a_way_out(tiny: Toolchain, programs: Path, tmp_path: Path) -> None:
    write_debian(programs, update="sys.exit('E: Failed to fetch the list\\nE: Some index files failed')")
    with pytest.raises(ConvertError) as caught:
        add(tmp_path / "made")
    assert str(caught.value) == (
        "the toolchain tiny could not be installed: apt-get says: Failed to fetch the list; add package sources that "
        f"have it for arm64, or {WAY_OUT}; the whole output is in {tmp_path}/made/log"
    )


def test_a_damaged_package_is_said(tiny: Toolchain, programs: Path, tmp_path: Path) -> None:
    write_debian(programs)
    write_program(programs, "dpkg-deb", "#!/bin/sh\necho 'dpkg-deb: error: it is cut off' >&2\nexit 2\n")
    with pytest.raises(ConvertError, match="installed: dpkg-deb says: it is cut off; the whole output is in "):
        add(tmp_path / "made")


def test_packages_without_a_python_are_said(tiny: Toolchain, programs: Path, tmp_path: Path) -> None:
    write_debian(programs)
    script = (programs / "dpkg-deb").read_text(encoding="utf-8")
    write_program(programs, "dpkg-deb", script.replace("python3.11", "python3.10"))
    with pytest.raises(ConvertError, match=r"sysroot has no usr/bin/python3\.11 or newer; set CONVERT_ARM64_SYSROOT"):
        add(tmp_path / "made")


def test_a_wheel_that_cannot_be_had_is_said(tiny: Toolchain, programs: Path, tmp_path: Path) -> None:
    write_debian(programs)
    next((tmp_path / "wheels").iterdir()).unlink()
    with pytest.raises(
        ConvertError, match=r"could not be installed: No matching distribution found for tiny-kit==1\.0"
    ):
        add(tmp_path / "made")


def test_programs_that_fail_under_the_emulator_fail_the_installation(tiny: Toolchain, programs: Path) -> None:
    write_debian(programs, qemu="#!/bin/sh\necho 'ImportError: no such library' >&2\nexit 3\n")
    with pytest.raises(ConvertError) as caught:
        install()
    assert str(caught.value) == (
        "the toolchain tiny could not be installed: its Python fails under qemu with exit code 3 (ImportError: no such "
        f"library); the whole output is in {env.log_file('tiny')}"
    )
    assert_nothing_is_left()


def test_an_interrupted_installation_leaves_nothing(
    tiny: Toolchain, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain_install, "_HEARTBEAT_SECONDS", 0.05)
    write_debian(programs, update="import time; time.sleep(60)")

    def interrupt(line: str) -> None:
        if "reading the lists of Debian packages" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        toolchains.install("tiny", interrupt)
    assert_nothing_is_left()


def test_a_sysroot_of_the_users_is_linked_and_left_alone(
    tiny: Toolchain, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = write_sysroot(tmp_path / "theirs")
    (theirs / "proc").mkdir()
    qemu = write_program(programs, "qemu-aarch64")
    monkeypatch.setenv("CONVERT_ARM64_SYSROOT", str(theirs))
    made = add(tmp_path / "made")
    assert made.qemu.readlink() == qemu
    assert made.python.resolve() == theirs / "usr/bin/python3.11"
    assert (made.sysroot / "proc/cpuinfo").is_file()
    assert list((theirs / "proc").iterdir()) == []
    assert (made.packages / "tiny_kit.py").is_file()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("", " is no folder"),
        ("lib", " has no lib/ld-linux-aarch64.so.1, the loader of glibc for arm64"),
        ("usr", " has no usr/bin/python3.11 or newer"),
    ],
)
def test_a_wrong_sysroot_is_an_error(
    change: str, problem: str, tiny: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "theirs"
    (write_sysroot(folder) / change).rename(tmp_path / "elsewhere")
    monkeypatch.setenv("CONVERT_ARM64_SYSROOT", str(folder))
    with pytest.raises(InputError) as caught:
        install()
    assert str(caught.value) == (
        f"CONVERT_ARM64_SYSROOT is '{folder}', which cannot be used: {folder}{problem}; {WAY_OUT}"
    )
    assert_nothing_is_left()


def test_other_packages_and_wheels_are_another_folder(tiny: Toolchain) -> None:
    before = env.fingerprint(TINY)
    assert env.fingerprint(dataclasses.replace(TINY, system_packages=("other",))) != before
    assert env.fingerprint(dataclasses.replace(TINY, foreign_parts=("tiny_kit.py",))) != before
    env.constraints_file("tiny-wheels").write_text("tiny-kit==1.1\n", encoding="utf-8")
    assert env.fingerprint(TINY) != before

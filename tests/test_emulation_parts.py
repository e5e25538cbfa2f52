"""What is refused before the emulation is installed, and how its packages are unpacked."""

from __future__ import annotations

import platform
import re
import stat
import sys
import zipfile
from pathlib import Path

import pytest
from helpers.arm64 import X86_64, write_program, write_sysroot

from convert import debian_packages, emulation_install
from convert.errors import ConvertError, InputError

WAY_OUT = (
    "set CONVERT_ARM64_SYSROOT to a folder with an arm64 root filesystem that has glibc, libstdc++ and Python 3.11 "
    "or newer"
)


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the whole PATH, and no variable that names a sysroot."""
    monkeypatch.delenv("CONVERT_ARM64_SYSROOT", raising=False)
    (tmp_path / "programs").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    return tmp_path / "programs"


def test_a_sysroot_needs_an_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVERT_ARM64_SYSROOT", str(write_sysroot(tmp_path / "theirs")))
    message = (
        "CONVERT_ARM64_SYSROOT needs an emulator on the PATH, and neither qemu-aarch64-static nor qemu-aarch64 is "
        "there; install qemu-user"
    )
    with pytest.raises(ConvertError, match=f"^{re.escape(message)}$"):
        emulation_install.own_sysroot()


def test_a_sysroot_of_another_machine_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVERT_ARM64_SYSROOT", str(write_sysroot(tmp_path / "theirs", header=X86_64)))
    with pytest.raises(InputError, match=r"theirs/usr/bin/python3\.11 is no program for arm64; set CONVERT_ARM64"):
        emulation_install.own_sysroot()


@pytest.mark.parametrize(
    ("there", "missing"), [((), "apt-get and dpkg-deb"), (("apt-get",), "dpkg-deb"), (("dpkg-deb",), "apt-get")]
)
def test_other_distributions_are_told_the_way_out(there: tuple[str, ...], missing: str, programs: Path) -> None:
    for name in there:
        write_program(programs, name)
    with pytest.raises(ConvertError) as caught:
        emulation_install.own_sysroot()
    assert str(caught.value) == (
        f"the toolchain arm64-emulation is made of Debian packages, and {missing} cannot be found; {WAY_OUT}, and "
        "install qemu-user"
    )


@pytest.mark.parametrize(
    ("system", "machine", "advice"),
    [
        ("linux", "aarch64", "an arm64 machine runs arm64 artifacts as they are"),
        ("linux", "riscv64", "use such a machine for arm64"),
        ("win32", "AMD64", "use such a machine for arm64"),
    ],
)
def test_other_machines_are_told(system: str, machine: str, advice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(ConvertError) as caught:
        emulation_install.own_sysroot()
    assert str(caught.value) == (
        f"the toolchain arm64-emulation is for Linux on x86-64 and this is {system} on {machine}; {advice}"
    )


@pytest.mark.parametrize("name", ["../evil.py", "/evil.py", "a/../../evil.py", "a\\..\\evil.py"])
def test_a_wheel_that_writes_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    wheel = tmp_path / "evil-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(name, "")
    with pytest.raises(ConvertError, match=re.escape(f"{wheel.name} holds {name!r}, which is a link or lies outside")):
        emulation_install.unpack_wheel(wheel, tmp_path / "packages")
    assert list(tmp_path.rglob("evil.py")) == []


def test_a_wheel_with_a_link_is_refused(tmp_path: Path) -> None:
    entry = zipfile.ZipInfo("link")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "evil-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(entry, "/etc")
    with pytest.raises(ConvertError, match="holds 'link', which is a link"):
        emulation_install.unpack_wheel(tmp_path / "evil-1.0-py3-none-any.whl", tmp_path / "packages")


def test_of_tvm_only_what_runs_is_unpacked(tmp_path: Path) -> None:
    wheel = tmp_path / "apache_tvm-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("tvm/lib/libtvm_runtime.so", "tvm/lib/libtvm_compiler.so", "apache_tvm-1.0.dist-info/LICENSE"):
            archive.writestr(name, "")
    emulation_install.unpack_wheel(wheel, tmp_path / "to", ("tvm/lib/libtvm_runtime.so", "tvm/lib/other.so"))
    found = {str(path.relative_to(tmp_path / "to")) for path in (tmp_path / "to").rglob("*") if path.is_file()}
    assert found == {"tvm/lib/libtvm_runtime.so", "apache_tvm-1.0.dist-info/LICENSE"}


def test_absolute_links_are_made_relative(tmp_path: Path) -> None:
    (tmp_path / "usr/lib/deep").mkdir(parents=True)
    for link, target in {"top": "/usr/lib", "usr/lib/deep/x": "/etc/y", "usr/same": "lib/deep"}.items():
        (tmp_path / link).symlink_to(target)
    debian_packages.make_links_relative(tmp_path)
    links = {str(path.relative_to(tmp_path)): str(path.readlink()) for path in tmp_path.rglob("*") if path.is_symlink()}
    assert links == {"top": "usr/lib", "usr/lib/deep/x": "../../../etc/y", "usr/same": "lib/deep"}


def test_a_program_that_says_nothing_has_its_exit_code_told(tmp_path: Path) -> None:
    assert debian_packages.apt_complaint(tmp_path / "none", 7) == "it ended with exit code 7 and no output"

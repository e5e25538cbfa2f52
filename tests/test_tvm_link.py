"""Which linker serves a platform, what is said where there is none, and how it is called."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from helpers.arm64 import write_program

from convert.errors import StageError
from convert.targets import tvm_link
from convert.targets.tvm_link import Linker, lacking, link, linker_for, write_objects

ZIG = ("/z/python", "-m", "ziglang")
RECORD = '#!/bin/sh\nprintf "%s\\n" "$@" >> "$0.words"\n'


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the whole PATH, on a host of its own, without an NDK."""
    monkeypatch.setattr(tvm_link, "host_platform", lambda: "linux/amd64")
    monkeypatch.delenv("ANDROID_NDK_HOME", raising=False)
    (tmp_path / "programs").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    return tmp_path / "programs"


def write_ndk(home: Path, *levels: int, text: str = RECORD) -> Path:
    """An NDK that consists of its compilers; gives their folder."""
    folder = home / "toolchains/llvm/prebuilt/linux-x86_64/bin"
    folder.mkdir(parents=True)
    for level in levels:
        write_program(folder, f"aarch64-linux-android{level}-clang++", text)
    return folder


def test_the_host_takes_the_first_compiler_there_is(programs: Path) -> None:
    assert linker_for("linux/amd64", ZIG) is None  # zig is for other platforms
    write_program(programs, "c++")
    assert linker_for("linux/amd64") == Linker(("c++",), "c++")
    write_program(programs, "g++")
    assert linker_for("linux/amd64") == Linker(("g++",), "g++")
    assert lacking("linux/amd64") == ""


@pytest.mark.parametrize(
    ("platform", "compiler", "zig"),
    [
        ("linux/arm64", "aarch64-linux-gnu-g++", "aarch64-linux-gnu.2.28"),
        ("linux/arm/v7", "arm-linux-gnueabihf-g++", "arm-linux-gnueabihf.2.28"),
        ("linux/riscv64", "riscv64-linux-gnu-g++", "riscv64-linux-gnu.2.28"),
    ],
)
def test_a_cross_compiler_comes_before_zig(platform: str, compiler: str, zig: str, programs: Path) -> None:
    assert linker_for(platform) is None
    assert linker_for(platform, ZIG) == Linker((*ZIG, "cc", "-target", zig), f"zig cc -target {zig}")
    write_program(programs, compiler)
    assert linker_for(platform, ZIG) == linker_for(platform) == Linker((compiler,), compiler)


def test_android_is_linked_by_lld(programs: Path) -> None:
    assert linker_for("android/arm64") is None
    assert linker_for("android/arm64", ZIG) == Linker((*ZIG, "ld.lld"), "zig ld.lld", bare=True)
    write_program(programs, "ld.lld")
    assert linker_for("android/arm64", ZIG) == Linker(("ld.lld",), "ld.lld", bare=True)


def test_an_ndk_comes_first_and_its_oldest_system_is_taken(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(programs, "ld.lld")
    folder = write_ndk(tmp_path / "ndk", 35, 21, 100)
    monkeypatch.setenv("ANDROID_NDK_HOME", str(tmp_path / "ndk"))
    found = linker_for("android/arm64", ZIG)
    name = "aarch64-linux-android21-clang++"
    assert found == Linker((str(folder / name),), f"NDK {name}")
    assert linker_for("linux/arm64", ZIG) == Linker(
        (*ZIG, "cc", "-target", "aarch64-linux-gnu.2.28"), "zig cc -target aarch64-linux-gnu.2.28"
    )


def test_an_ndk_is_called_as_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_ndk(tmp_path / "ndk", 26)
    monkeypatch.setenv("ANDROID_NDK_HOME", str(tmp_path / "ndk"))
    found = linker_for("android/arm64")
    assert found is not None
    link(found, "android/arm64", tmp_path)("out.so", ["a.o", "b.o"], cc="what TVM would take")
    words = (folder / "aarch64-linux-android26-clang++.words").read_text(encoding="utf-8").split()
    assert words == ["-shared", "-fPIC", "-Wl,-z,max-page-size=16384", "-o", "out.so", "a.o", "b.o", "-lm"]


def test_a_bare_linker_gets_stubs_of_the_libraries(programs: Path, tmp_path: Path) -> None:
    write_program(programs, "ld.lld", RECORD)
    link(Linker(("ld.lld",), "ld.lld", bare=True), "android/arm64", tmp_path)("out.so", ["a.o"])
    words = (programs / "ld.lld.words").read_text(encoding="utf-8").splitlines()
    assert [words[place + 1] for place, word in enumerate(words) if word == "-soname"] == ["libc.so", "libm.so"]
    last = ["-shared", "-z", "max-page-size=16384", "--no-as-needed", "-o", "out.so", "a.o"]
    assert words[-9:] == [*last, str(tmp_path / "libc.so"), str(tmp_path / "libm.so")]


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_that_is_no_ndk_is_one_sentence(there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with zig: whoever names an NDK wants that one."""
    home = tmp_path / "ndk"
    if there:
        write_ndk(home)
    monkeypatch.setenv("ANDROID_NDK_HOME", str(home))
    assert linker_for("android/arm64", ZIG) is None
    assert lacking("android/arm64", ZIG) == (
        f"an NDK with aarch64-linux-android*-clang++, and ANDROID_NDK_HOME is '{home}', which holds none; set it to "
        "the folder of an NDK, or unset it to link without one"
    )
    assert lacking("linux/arm64", ZIG) == ""


@pytest.mark.parametrize(
    ("platform", "told"),
    [
        (
            "linux/amd64",
            "a C++ compiler to link with (g++, clang++, c++ are not on the PATH); install g++",
        ),
        (
            "linux/arm64",
            "a cross compiler for linux/arm64 (aarch64-linux-gnu-g++ is not on the PATH); install it, or run "
            "`convert toolchain install arm64-emulation`",
        ),
        (
            "android/arm64",
            "a linker for android/arm64: set ANDROID_NDK_HOME, or install lld, or run `convert toolchain install "
            "arm64-emulation`",
        ),
    ],
)
def test_what_must_be_installed(platform: str, told: str) -> None:
    assert lacking(platform) == told


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("echo note: x >&2; echo 'ld: error: no such thing' >&2; echo bye >&2", "ld: error: no such thing"),
        ("echo first >&2; echo last >&2", "last"),
        (":", "no output"),
    ],
)
def test_a_linker_that_fails_is_one_sentence(said: str, why: str, programs: Path, tmp_path: Path) -> None:
    write_program(programs, "g++", f"#!/bin/sh\n{said}\nexit 1\n")
    with pytest.raises(StageError) as caught:
        link(Linker(("g++",), "g++"), "linux/amd64", tmp_path)("out.so", ["a.o"])
    assert str(caught.value) == f"g++ cannot link for linux/amd64: {why}"


def test_objects_are_kept_without_their_folders(tmp_path: Path) -> None:
    for name in ("lib0.o", "devc.o"):
        (tmp_path / name).write_bytes(name.encode())
    write_objects(tmp_path / "model.tar", [str(tmp_path / "lib0.o"), str(tmp_path / "devc.o")])
    with tarfile.open(tmp_path / "model.tar") as archive:
        found = {one.name: archive.extractfile(one) for one in archive.getmembers()}
        assert {name: file.read() for name, file in found.items() if file} == {"lib0.o": b"lib0.o", "devc.o": b"devc.o"}

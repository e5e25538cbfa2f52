"""What is read in a shared library before it is sent anywhere."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from convert.platforms import PLATFORMS
from convert.targets.elf import MACHINES, problem


def library(machine: int, *, wide: bool = True, sections: int = 3, order: int = 1) -> bytes:
    """A header, and a table of sections right after it."""
    size = 64 if wide else 40
    header = bytearray(64)
    header[:6] = b"\x7fELF" + bytes((2 if wide else 1, order))
    struct.pack_into("<H", header, 18, machine)
    struct.pack_into("<Q" if wide else "<I", header, 40 if wide else 32, 64)
    struct.pack_into("<HH", header, 58 if wide else 46, size, sections)
    return bytes(header) + bytes(size * sections)


def told(folder: Path, data: bytes, platform: str) -> str:
    (folder / "model.so").write_bytes(data)
    return problem(folder / "model.so", platform)


def test_every_platform_has_its_machine() -> None:
    assert {name.split("/")[1] for name in PLATFORMS} == set(MACHINES)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_whole_library(platform: str, tmp_path: Path) -> None:
    machine = MACHINES[platform.split("/")[1]]
    assert told(tmp_path, library(machine, wide="v7" not in platform), platform) == ""
    assert told(tmp_path, library(machine, sections=0), platform) == ""  # stripped of its sections


def test_one_for_another_machine(tmp_path: Path) -> None:
    assert told(tmp_path, library(62), "linux/arm64") == "is for amd64, not for linux/arm64"
    assert told(tmp_path, library(183), "linux/arm/v7") == "is for arm64, not for linux/arm/v7"
    assert told(tmp_path, library(21), "android/arm64") == "is for the machine 21, not for android/arm64"
    assert told(tmp_path, library(21), "linux/s390x") == ""  # not in the table


@pytest.mark.parametrize("wide", [True, False])
def test_one_that_was_cut_short(wide: bool, tmp_path: Path) -> None:
    whole = library(183, wide=wide)
    assert told(tmp_path, whole[:-1], "linux/arm64") == "is cut short: the end of the file is missing"
    assert told(tmp_path, whole[:64], "linux/arm64") == "is cut short: the end of the file is missing"


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"no library" * 20, library(183, order=2)])
def test_what_is_no_library(data: bytes, tmp_path: Path) -> None:
    assert told(tmp_path, data, "linux/arm64") == "is no shared library"

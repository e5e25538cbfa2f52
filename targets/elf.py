"""What a shared library of Linux says of itself: the machine it is for, and whether all of it is there."""

from __future__ import annotations

import struct
from pathlib import Path

#: ``e_machine`` by the architecture of a platform.
MACHINES = {"amd64": 62, "arm64": 183, "arm": 40, "riscv64": 243}
_HEADER_BYTES = 64
_LOWEST_BYTE_FIRST = 1


def problem(file: Path, platform: str) -> str:
    """Why ``file`` is no library for ``platform``; empty when it is one.

    Loaders say of a wrong machine that the file is not there, and of a file that was cut short nothing: the process
    dies.
    """
    with file.open("rb") as stream:
        header = stream.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or header[:4] != b"\x7fELF" or header[5] != _LOWEST_BYTE_FIRST:
        return "is no shared library"
    (machine,) = struct.unpack_from("<H", header, 18)
    if machine != MACHINES.get(platform.split("/")[1], machine):
        names = {number: name for name, number in MACHINES.items()}
        return f"is for {names.get(machine, f'the machine {machine}')}, not for {platform}"
    if _end_of_sections(header) > file.stat().st_size:
        return "is cut short: the end of the file is missing"
    return ""


def _end_of_sections(header: bytes) -> int:
    """Where the table of sections ends, which linkers write last."""
    wide = header[4] == 2
    (start,) = struct.unpack_from("<Q", header, 40) if wide else struct.unpack_from("<I", header, 32)
    size, count = struct.unpack_from("<HH", header, 58 if wide else 46)
    return int(start + size * count)

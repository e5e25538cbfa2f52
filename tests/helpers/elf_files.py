"""What a shared library asks of the system that loads it, read from its bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRINGS, _VERSIONS_NEEDED = 1, 5, 0x6FFFFFFE
_DYNAMIC_SYMBOLS = 11  # the kind of a section


@dataclass
class Elf:
    """A library.

    Attributes:
        alignments: of the segments that are loaded.
        needed: the libraries that it asks for.
        undefined: the symbols that these must have.
        versioned: whether it asks for versions of these, as glibc has them.
    """

    machine: int
    flags: int
    wide: bool
    alignments: list[int] = field(default_factory=list)
    needed: list[str] = field(default_factory=list)
    undefined: set[str] = field(default_factory=set)
    versioned: bool = False


def read(file: Path) -> Elf:
    """Read ``file``, which must be an ELF file with the lowest byte first."""
    data = file.read_bytes()
    assert data[:4] == b"\x7fELF"
    assert data[5] == 1
    wide = data[4] == 2
    head = struct.unpack_from("<HHIQQQIHHHHHH" if wide else "<HHIIIIIHHHHHH", data, 16)
    found = Elf(head[1], head[6], wide)
    segments = [_segment(data, head[4] + place * head[8], wide) for place in range(head[9])]
    found.alignments = [align for kind, *_, align in segments if kind == _LOAD]
    loads = [(address, offset, size) for kind, offset, address, size, _ in segments if kind == _LOAD]
    for kind, offset, _, size, _ in segments:
        if kind == _DYNAMIC:
            _read_dynamic(found, data, loads, offset, size)
    sections = [_section(data, head[5] + place * head[10], wide) for place in range(head[11])]
    for kind, offset, size, link in sections:
        if kind == _DYNAMIC_SYMBOLS:
            found.undefined = _undefined(data, offset, size, sections[link][1], wide)
    return found


def _segment(data: bytes, place: int, wide: bool) -> tuple[int, int, int, int, int]:
    if wide:
        kind, _, offset, address, _, size, _, align = struct.unpack_from("<IIQQQQQQ", data, place)
    else:
        kind, offset, address, _, size, _, _, align = struct.unpack_from("<IIIIIIII", data, place)
    return kind, offset, address, size, align


def _section(data: bytes, place: int, wide: bool) -> tuple[int, int, int, int]:
    _, kind, _, _, offset, size, link = struct.unpack_from("<IIQQQQI" if wide else "<IIIIIII", data, place)
    return kind, offset, size, link


def _read_dynamic(found: Elf, data: bytes, loads: list[tuple[int, int, int]], offset: int, size: int) -> None:
    step = 16 if found.wide else 8
    entries = [struct.unpack_from("<QQ" if found.wide else "<II", data, offset + at) for at in range(0, size, step)]
    table = dict(entries)
    start = next(table[_STRINGS] - where + at for where, at, long in loads if where <= table[_STRINGS] < where + long)
    found.needed = [_text(data, start + value) for tag, value in entries if tag == _NEEDED]
    found.versioned = _VERSIONS_NEEDED in table


def _undefined(data: bytes, offset: int, size: int, strings: int, wide: bool) -> set[str]:
    names = set()
    for place in range(offset, offset + size, 24 if wide else 16):
        (name,) = struct.unpack_from("<I", data, place)
        (section,) = struct.unpack_from("<H", data, place + (6 if wide else 14))
        if section == 0 and name:
            names.add(_text(data, strings + name))
    return names


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()

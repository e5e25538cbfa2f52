"""Telling what a file is by its first bytes and its structure; reads little of it and runs nothing."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO

_OTHERS = (
    (0, b"\x93NUMPY", "a NumPy array"),
    (0, b"\x89HDF", "an HDF5 file (often Keras weights)"),
    (0, b"GGUF", "a GGUF file"),
    (4, b"TFL3", "a TFLite model, which is a result of a conversion and not a source"),
    (0, b"\x1f\x8b", "a gzip file; unpack it first"),
    (0, b"ustar", "a tar file; unpack it first"),
    (257, b"ustar", "a tar file (torch.save files from before 2018 are such); load and save it again"),
)

# Wire types of the fields of ModelProto and GraphProto: 0 is a number, 2 is bytes.
_MODEL_FIELDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}
_GRAPH_FIELDS = dict.fromkeys((1, 2, 5, 10, 11, 12, 13, 14, 15, 16), 2)
_NEWEST_IR_VERSION = 30
#: What ``zipfile`` raises for archives that are damaged, encrypted or packed in a way that it does not know.
ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    struct.error,
)
_ALWAYS_UNPACKED = 1 << 28
_MOST_PACKED = 100


def head(path: Path, size: int = 512) -> bytes:
    """The first ``size`` bytes of the file."""
    with path.open("rb") as stream:
        return stream.read(size)


def not_a_model(start: bytes) -> str:
    """What a file with these first 512 bytes is if it is a well-known thing other than a model; else empty."""
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<?xml")):
        return "a web page; the download did not give the file itself, so fetch it again"
    if text.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the file itself; run git lfs pull"
    return next((what for at, magic, what in _OTHERS if start[at : at + len(magic)] == magic), "")


def is_safetensors(start: bytes, size: int) -> bool:
    """Whether a file of ``size`` bytes that begins with ``start`` holds tensors by name as safetensors writes them."""
    header = int.from_bytes(start[:8], "little")
    return len(start) > 8 and start[8:9] == b"{" and 2 <= header <= size - 8


def bomb_problem(archive: zipfile.ZipFile, size: int) -> str:
    """Why the archive of ``size`` bytes must not be unpacked: it says that it gets absurdly large; else empty.

    Models and arrays are stored as they are or packed a little: not even zeros that somebody packed as a model are
    worth filling the memory of a machine.
    """
    unpacked = sum(item.file_size for item in archive.infolist())
    if unpacked <= max(_ALWAYS_UNPACKED, _MOST_PACKED * size):
        return ""
    return f"it says that it unpacks to {unpacked / 2**30:.3g} GiB, {unpacked // size} times its own size"


def onnx_problem(path: Path) -> str | None:
    """None if the file has the fields of an ONNX model; ``""`` if it is something else; else what is wrong with it."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        try:
            if stream.read(1) != b"\x08" or not 1 <= _varint(stream) <= _NEWEST_IR_VERSION:
                return ""
        except EOFError:
            return ""
        stream.seek(0)
        try:
            fields = _fields(stream, size, _MODEL_FIELDS)
        except EOFError:
            return "it is an ONNX file that was cut short"
        if fields is None:
            return ""
        if 7 not in fields:
            return "it has the fields of an ONNX file but no graph"
        stream.seek(fields[7][0])
        try:
            graph = _fields(stream, fields[7][1], _GRAPH_FIELDS)
        except EOFError:
            graph = None
    return None if graph and 12 in graph else "it has the fields of an ONNX file but its graph has no outputs"


def _fields(stream: IO[bytes], end: int, allowed: dict[int, int]) -> dict[int, tuple[int, int]] | None:
    """Walk one protobuf message up to ``end``: field number -> (start, end) of its last value; None on a foreign field.

    Raises:
        EOFError: a value reaches beyond ``end``.
    """
    found: dict[int, tuple[int, int]] = {}
    while stream.tell() < end:
        key = _varint(stream)
        number, wire = key >> 3, key & 7
        if allowed.get(number) != wire:
            return None
        value = _varint(stream)
        if value < 0:
            return None
        start = stream.tell()
        stop = start + value if wire == 2 else start
        if stop > end:
            raise EOFError
        found[number] = (start, stop)
        stream.seek(stop)
    return found


def _varint(stream: IO[bytes]) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)
        if not byte:
            raise EOFError
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    return -1

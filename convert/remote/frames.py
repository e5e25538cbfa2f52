"""The frames between a session here and the program that holds the artifact elsewhere.

Everything is little-endian. Requests: ``R`` and tensors (run once), ``T`` and a count (run so often with the feeds of
the last ``R``, and time each run), ``M`` (peak memory). Answers: ``H`` and the version (loaded), ``K`` and tensors,
``T`` and seconds, ``M`` and bytes, ``E`` and a text. Tensors are preceded by their count; one is the number of axes
(u32), DLPack's code and bits of the dtype (u8 each), the sizes (i64 each) and the elements in C order.
``targets/native/tvm_runner.c`` and ``convert/remote/serve.py`` are the other end.

No line of this file needs a Python newer than 3.11, which is what a device may have.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

VERSION = 1
_MOST_AXES = 64
_MOST_TEXT = 1 << 20
#: DLPack's codes by numpy's kinds.
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}


class Broken(Exception):
    """The line ended in the middle, or what came is no frame."""


def read_exactly(stream: IO[bytes], size: int) -> bytes:
    """``size`` bytes.

    Raises:
        Broken: the stream ended before.
    """
    parts, left = [], size
    while left:
        part = stream.read(left)
        if not part:
            raise Broken("the line ended in the middle of a frame")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _unpack(stream: IO[bytes], form: str) -> Any:
    return struct.unpack(form, read_exactly(stream, struct.calcsize(form)))


def write_tensors(stream: IO[bytes], tensors: Sequence[np.ndarray[Any, Any]]) -> None:
    """Write ``tensors``, preceded by their count.

    Raises:
        Broken: one has a dtype that has no code.
    """
    stream.write(struct.pack("<I", len(tensors)))
    for tensor in tensors:
        if tensor.dtype.kind not in _CODES:
            raise Broken(f"arrays of dtype {tensor.dtype} cannot be sent")
        head = struct.pack("<IBB", tensor.ndim, _CODES[tensor.dtype.kind], tensor.dtype.itemsize * 8)
        stream.write(head + struct.pack(f"<{tensor.ndim}q", *tensor.shape))
        stream.write(tensor.astype(tensor.dtype.newbyteorder("<"), copy=False).tobytes())  # in C order, whatever it was


def read_tensors(stream: IO[bytes]) -> list[np.ndarray[Any, Any]]:
    """Read what :func:`write_tensors` wrote.

    Raises:
        Broken: the stream ended, or it holds something else.
    """
    return [_read_tensor(stream) for _ in range(_unpack(stream, "<I")[0])]


def _read_tensor(stream: IO[bytes]) -> np.ndarray[Any, Any]:
    axes, code, bits = _unpack(stream, "<IBB")
    if axes > _MOST_AXES or code not in _KINDS or bits % 8 or not bits:
        raise Broken(f"a tensor of {axes} axes with the dtype code {code} of {bits} bits cannot be read")
    shape = _unpack(stream, f"<{axes}q")
    if any(size < 0 for size in shape):
        raise Broken(f"a tensor has the shape {list(shape)}")
    dtype = np.dtype("?" if _KINDS[code] == "b" else f"<{_KINDS[code]}{bits // 8}")
    size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(read_exactly(stream, size), dtype).reshape(shape).copy()


def write_run(stream: IO[bytes], feeds: Sequence[np.ndarray[Any, Any]]) -> None:
    """Ask for one run."""
    stream.write(b"R")
    write_tensors(stream, feeds)
    stream.flush()


def write_time(stream: IO[bytes], runs: int) -> None:
    """Ask for ``runs`` timed runs with the feeds of the last run."""
    stream.write(b"T" + struct.pack("<I", runs))
    stream.flush()


def write_memory(stream: IO[bytes]) -> None:
    """Ask for the peak memory."""
    stream.write(b"M")
    stream.flush()


def complaint(text: str) -> bytes:
    """The answer ``E``: why there is no other."""
    data = text.encode()
    return b"E" + struct.pack("<I", len(data)) + data


def read_answer(stream: IO[bytes]) -> tuple[str, Any]:
    """The next answer: its letter, and what it holds: version, arrays, seconds, bytes or text.

    Raises:
        Broken: the stream ended, or it holds something else.
    """
    letter = read_exactly(stream, 1)
    if letter == b"H":
        return "H", int(_unpack(stream, "<I")[0])
    if letter == b"K":
        return "K", read_tensors(stream)
    if letter == b"T":
        count = _unpack(stream, "<I")[0]
        return "T", [float(value) for value in _unpack(stream, f"<{count}d")]
    if letter == b"M":
        return "M", int(_unpack(stream, "<Q")[0])
    if letter == b"E":
        size = min(_unpack(stream, "<I")[0], _MOST_TEXT)
        return "E", read_exactly(stream, size).decode(errors="replace")
    raise Broken(f"the line holds {letter!r}, which begins no answer")

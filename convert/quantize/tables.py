"""Files of arrays whose first axis counts samples: ``.npz``, ``.npy`` and what ``torch.save`` wrote.

Arrays of numpy are read a few rows at a time, compressed or not, so that memory does not grow with their number.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np

from convert.arrays import is_array
from convert.errors import InputError
from convert.models import unpickle
from convert.models.content import ZIP_ERRORS
from convert.quantize.pieces import Piece, piece

Array = np.ndarray[Any, Any]
#: Bytes of one array that are in memory at a time.
CHUNK = 1 << 20
#: Bytes of one sample beyond which a file is not believed.
_MOST_ROW = 1 << 30


class Rows:
    """An array of a file, read from its first row to its last."""

    def __init__(self, name: str, stream: IO[bytes], spec: str) -> None:
        """Read the head of the array; raises ``InputError`` where it is no array of numbers."""
        self.name = name
        self._stream, self._spec = stream, spec
        try:
            version = np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            self.shape, fortran, self.dtype = read(stream)
        except ZIP_ERRORS as error:
            raise InputError(f"{name} in {spec} cannot be read ({error}); save it again with numpy.savez") from error
        if self.dtype.kind not in "fiubU":
            raise InputError(
                f"{name} in {spec} holds {self.dtype}; only numbers, booleans and texts (as labels) can be used, and "
                "nothing is unpickled"
            )
        if not self.shape:
            raise InputError(f"{name} in {spec} is a single number; its first axis must count samples")
        self._row = math.prod(self.shape[1:]) * self.dtype.itemsize
        self._next = 0
        if self._row > _MOST_ROW:
            raise InputError(
                f"one sample of {name} in {spec} has {self._row / 2**30:.3g} GiB (its shape is {list(self.shape)}); "
                "its first axis must count samples"
            )
        # In this rare order a row is spread over the whole file.
        self._whole = self._all() if fortran and len(self.shape) > 1 else None

    @property
    def per_chunk(self) -> int:
        """How many rows may be in memory."""
        return max(1, CHUNK // max(self._row, 1))

    def take(self, count: int) -> Array:
        """The next ``count`` rows, fewer at the end."""
        count = min(count, self.shape[0] - self._next)
        start, self._next = self._next, self._next + count
        if self._whole is not None:
            return np.ascontiguousarray(self._whole[start : start + count])
        return np.frombuffer(self._bytes(count * self._row), self.dtype).reshape(count, *self.shape[1:])

    def _all(self) -> Array:
        values = np.frombuffer(self._bytes(math.prod(self.shape) * self.dtype.itemsize), self.dtype)
        return values.reshape(self.shape, order="F")

    def _bytes(self, count: int) -> bytes:
        parts, left = [], count
        try:
            while left and (part := self._stream.read(left)):
                parts.append(part)
                left -= len(part)
        except ZIP_ERRORS as error:
            raise InputError(f"{self._spec} is damaged at {self.name} ({error}); copy it again") from error
        if left:
            raise InputError(f"{self._spec} was cut short: {left} bytes of {self.name} are missing; copy it again")
        return b"".join(parts)


def read_npy(path: Path, names: Sequence[str], spec: str) -> Generator[Piece]:
    """The one input of a model from a ``.npy``."""
    if len(names) != 1:
        raise InputError(
            f"{spec} is one array, but the model takes {len(names)} ({', '.join(names)}); give a .npz with an array "
            "under each of these names"
        )
    with path.open("rb") as stream:
        yield from _pieces([Rows(names[0], stream, spec)], names, spec)


def read_npz(path: Path, names: Sequence[str], spec: str) -> Generator[Piece]:
    """All inputs, and perhaps labels, from a ``.npz``; arrays saved without names are in the order of the inputs."""
    with ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(path))
            # Their checksums are looked at when the end of each is read.
            streams = {name[:-4]: stack.enter_context(archive.open(name)) for name in archive.namelist()}
        except ZIP_ERRORS as error:
            raise InputError(f"{spec} is a zip file that was cut short or damaged ({error}); copy it again") from error
        yield from _pieces([Rows(name, stream, spec) for name, stream in streams.items()], names, spec)


def _pieces(columns: Sequence[Rows], names: Sequence[str], spec: str) -> Iterator[Piece]:
    ordered = all(column.name == f"arr_{place}" for place, column in enumerate(columns))
    # Names and numbers are looked at before any value is.
    counts = {column.name: column.shape[0] for column in columns}
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InputError(f"the arrays in {spec} have different numbers of samples ({text}); give as many of each")
    step = min((column.per_chunk for column in columns), default=1)
    for start in range(0, max(max(counts.values(), default=0), 1), step):
        arrays = {column.name: column.take(step) for column in columns}
        if start == 0 or arrays:
            yield piece(tuple(arrays.values()) if ordered and columns else arrays, names, spec, table=True)


def read_saved(path: Path, names: Sequence[str], spec: str, trust: bool) -> Generator[Piece]:
    """A tensor, a dict or a tuple of tensors whose first axis counts samples, or a list of single samples."""
    yield from pieces_of(unpickle.read(str(path), trust), names, spec)


def pieces_of(value: Any, names: Sequence[str], spec: str) -> Iterator[Piece]:
    """Whole arrays at once, else the items of anything that can be iterated."""
    if is_table(value, names):
        yield piece(value, names, spec, table=True)
        return
    if isinstance(value, str | bytes) or not (hasattr(value, "__iter__") or hasattr(value, "__getitem__")):
        raise InputError(f"{spec} gives a {type(value).__name__} and no samples; give arrays or something to iterate")
    for item in items_of(value):
        yield piece(item, names, spec, table=False)


def is_table(value: Any, names: Sequence[str]) -> bool:
    """Whether it is all the data: an array, a dict of arrays, or a tuple of arrays."""
    if isinstance(value, Mapping):
        return all(is_array(one) or key not in names for key, one in value.items())
    return is_array(value) or (isinstance(value, tuple) and len(value) > 0 and all(map(is_array, value)))


def items_of(value: Any) -> Iterator[Any]:
    """The items of an iterable, or of a data set that has a length and numbers for its items."""
    if hasattr(value, "__iter__"):
        yield from value
        return
    for index in range(len(value)):
        yield value[index]

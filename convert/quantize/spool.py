"""Batches on disk: the user's data is read once, and every worker gets exactly the same from here.

So no worker needs the user's code, torch or Pillow, and what is random in that code is random only once. Memory holds
one batch at a time.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np

from convert.errors import InputError
from convert.quantize.batching import Batch
from convert.serial import write_json

INDEX = "index.json"
#: Bytes that are left free on the disk.
_SPARE = 1 << 30

Array = np.ndarray[Any, Any]


class Spool:
    """What :func:`write` left in a folder; serves as :class:`convert.targets.base.CalibrationData`."""

    def __init__(self, folder: Path) -> None:
        """Read the index."""
        self.folder = folder
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        self.key: str = index["key"]
        self.random: bool = index["random"]
        #: The data as the user named them, for messages.
        self.name: str = index["name"]
        self.samples: int = index["samples"]
        self._counts: list[int] = index["counts"]
        self._columns: list[dict[str, Any]] = index["columns"]

    def __iter__(self) -> Iterator[dict[str, Array]]:
        """The feeds of every batch, from the first."""
        return (batch.feeds for batch in self.batches())

    def __len__(self) -> int:
        """How many batches there are."""
        return len(self._counts)

    def batches(self) -> Iterator[Batch]:
        """Every batch with its labels, from the first."""
        with ExitStack() as stack:
            streams = [stack.enter_context((self.folder / column["file"]).open("rb")) for column in self._columns]
            for samples in self._counts:
                arrays = [_read(stream, column, samples) for stream, column in zip(streams, self._columns, strict=True)]
                pairs = list(zip(self._columns, arrays, strict=True))
                feeds = {column["name"]: array for column, array in pairs if column["role"] == "input"}
                yield Batch(feeds, tuple(array for column, array in pairs if column["role"] == "label"), samples)


def _read(stream: IO[bytes], column: dict[str, Any], samples: int) -> Array:
    shape = tuple(column["shape"])
    if column["role"] == "label":
        shape = (samples, *shape)
    dtype = np.dtype(column["dtype"])
    # bytearray, so that nothing is read-only.
    return np.frombuffer(bytearray(stream.read(int(np.prod(shape)) * dtype.itemsize)), dtype).reshape(shape)


def there(folder: Path) -> bool:
    """Whether a spool was written to ``folder``."""
    return (folder / INDEX).is_file()


def write(folder: Path, batches: Iterable[Batch], name: str, *, random: bool = False) -> Spool:
    """Write ``batches``, all of one form, to the new ``folder``.

    Args:
        folder: is made.
        batches: read one at a time.
        name: what the user called the data.
        random: they were drawn.

    Raises:
        InputError: the disk is too small, or labels change their form.
    """
    folder.mkdir(parents=True)
    digest, counts, columns = hashlib.sha256(), [], []  # type: ignore[var-annotated]
    try:
        with ExitStack() as stack:
            streams: list[IO[bytes]] = []
            for batch in batches:
                arrays = [*batch.feeds.values(), *batch.labels]
                if not columns:
                    columns = _columns(batch)
                    digest.update(json.dumps(columns).encode())
                    streams = [stack.enter_context((folder / column["file"]).open("wb")) for column in columns]
                _require_same(columns, batch, name)
                _require_space(folder, sum(array.nbytes for array in arrays), name, sum(counts))
                for stream, array in zip(streams, arrays, strict=True):
                    content = np.ascontiguousarray(array).tobytes()
                    stream.write(content)
                    digest.update(content)
                counts.append(batch.samples)
    except OSError as error:
        raise InputError(_too_large(name, sum(counts), f"cannot be stored in {folder} ({error.strerror})")) from error
    index = {"key": digest.hexdigest(), "random": random, "name": name, "samples": sum(counts)}
    write_json(folder / INDEX, index | {"counts": counts, "columns": columns})
    return Spool(folder)


def _columns(batch: Batch) -> list[dict[str, Any]]:
    inputs = [("input", name, value, value.shape) for name, value in batch.feeds.items()]
    labels = [("label", str(place), value, value.shape[1:]) for place, value in enumerate(batch.labels)]
    return [
        {"file": f"{place}.bin", "role": role, "name": name, "dtype": value.dtype.str, "shape": list(shape)}
        for place, (role, name, value, shape) in enumerate((*inputs, *labels))
    ]


def _require_same(columns: list[dict[str, Any]], batch: Batch, name: str) -> None:
    found = _columns(batch)
    if found != columns:
        old, new = next(
            ((a, b) for a, b in zip(columns, found, strict=False) if a != b), ({"dtype": "no"}, {"dtype": "more"})
        )
        raise InputError(
            f"{name} changes its form (labels are {old['dtype']}{old.get('shape', '')} first and "
            f"{new['dtype']}{new.get('shape', '')} later); give all samples alike"
        )


def _require_space(folder: Path, size: int, name: str, samples: int) -> None:
    if shutil.disk_usage(folder).free - size < _SPARE:
        raise InputError(_too_large(name, samples, f"leave less than 1 GiB free on the disk of {folder}"))


def _too_large(name: str, samples: int, what: str) -> str:
    return f"more than {samples} samples of {name} {what}; use fewer with --calibration-samples N"

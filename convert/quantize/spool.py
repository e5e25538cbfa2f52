"""Batches on disk, one file for each input: memory holds one batch at a time, and reading needs numpy alone.

Labels can be anything and are pickled, so a folder is read only if this run has written it.
"""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from convert.errors import InputError
from convert.quantize.batching import Batch
from convert.serial import write_json

_INDEX = "convert-data.json"
_LABELS = "labels.pickle"
#: Bytes that are left free on the disk.
_SPARE = 1 << 30

Array = np.ndarray[Any, Any]


def is_spool(folder: Path) -> bool:
    """Whether :func:`write_spool` filled ``folder``."""
    try:
        return (folder / _INDEX).is_file()
    except (OSError, ValueError):
        return False


def read_index(folder: Path) -> dict[str, Any]:
    """What stands in the index: ``samples`` of each batch, ``columns``, and all that was added."""
    return dict(json.loads((folder / _INDEX).read_text(encoding="utf-8")))


def read_spool(folder: Path, *, labels: bool) -> Iterator[Batch]:
    """Every batch from the first, with its labels where these are asked for and were written."""
    index = read_index(folder)
    with ExitStack() as stack:
        streams = [stack.enter_context((folder / column["file"]).open("rb")) for column in index["columns"]]
        told = stack.enter_context((folder / _LABELS).open("rb")) if labels and index["labels"] else None
        for samples in index["samples"]:
            pairs = zip(index["columns"], streams, strict=True)
            feeds = {column["name"]: _read(stream, column) for column, stream in pairs}
            yield Batch(feeds, None if told is None else pickle.load(told), samples, index["room"])  # noqa: S301  (our own file)


def _read(stream: IO[bytes], column: Mapping[str, Any]) -> Array:
    dtype, shape = np.dtype(column["dtype"]), tuple(column["shape"])
    # A bytearray, so that the array can be written to as any other.
    return np.frombuffer(bytearray(stream.read(prod(shape) * dtype.itemsize)), dtype).reshape(shape)


def write_spool(folder: Path, batches: Iterable[Batch], more: Mapping[str, Any], key: Callable[[], str]) -> None:
    """Write ``batches``, which are read one at a time, to the new ``folder``.

    Args:
        folder: is made.
        batches: all of one form.
        more: goes into the index.
        key: asked for when all have been read.

    Raises:
        InputError: the disk is too small.
    """
    folder.mkdir(parents=True)
    columns: list[dict[str, Any]] = []
    samples: list[int] = []
    labelled, room = False, 0
    with ExitStack() as stack:
        streams: list[IO[bytes]] = []
        told = stack.enter_context((folder / _LABELS).open("wb"))
        for batch in batches:
            if not columns:
                columns = _columns(batch)
                streams = [stack.enter_context((folder / column["file"]).open("wb")) for column in columns]
            labelled, room = labelled or batch.labels is not None, batch.room
            _write(batch, streams, told, folder, f"{more['name']}, {sum(samples)} samples of which were stored")
            samples.append(batch.samples)
    index = {"key": key(), "samples": samples, "room": room, "columns": columns, "labels": labelled}
    write_json(folder / _INDEX, index | dict(more))


def _columns(batch: Batch) -> list[dict[str, Any]]:
    return [
        {"file": f"{place}.bin", "name": name, "dtype": value.dtype.str, "shape": list(value.shape)}
        for place, (name, value) in enumerate(batch.feeds.items())
    ]


def _write(batch: Batch, streams: list[IO[bytes]], told: IO[bytes], folder: Path, what: str) -> None:
    size = sum(value.nbytes for value in batch.feeds.values())
    if shutil.disk_usage(folder).free - size < _SPARE:
        raise InputError(
            f"the disk of {folder} has less than 1 GiB left for {what}; use fewer with --calibration-samples"
        )
    for stream, value in zip(streams, batch.feeds.values(), strict=True):
        stream.write(np.ascontiguousarray(value).data)
    pickle.dump(batch.labels, told)

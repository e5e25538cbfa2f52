"""From pieces of data to batches that the model takes: every dynamic dimension at its optimum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from convert.errors import InputError
from convert.quantize.pieces import Piece
from convert.records import Dim, InputSpec
from convert.specs import format_input, shape_at

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Batch:
    """Feeds of the source.

    Attributes:
        feeds: array by input name.
        labels: one array for each thing that came with the samples; the first axis counts samples.
        samples: how many there are; what follows in a batch only fills it up and repeats these.
    """

    feeds: dict[str, Array]
    labels: tuple[Array, ...]
    samples: int


@dataclass(frozen=True)
class Shapes:
    """What the model takes.

    Attributes:
        wanted: shape of every input at the optimum of every dimension.
        dtypes: by input name.
        batch: samples in a batch; None where the inputs have no first axis in common, so that samples stay whole.
    """

    wanted: dict[str, tuple[int, ...]]
    dtypes: dict[str, str]
    batch: int | None
    text: str

    @classmethod
    def of(cls, specs: Sequence[InputSpec], dims: Sequence[Dim]) -> Shapes:
        """For an interface."""
        opt = {dim.name: dim.opt for dim in dims}
        wanted = {spec.name: shape_at(spec, opt) for spec in specs}
        firsts = {spec.shape[0] if spec.shape else None for spec in specs}
        common = len(firsts) == 1 and None not in firsts
        batch = next(iter(wanted.values()))[0] if common else None
        at = "".join(f" at {name}={size}" for name, size in opt.items())
        text = " ".join(f"'{format_input(spec)}'" for spec in specs) + at
        return cls(wanted, {spec.name: spec.dtype for spec in specs}, batch, text)


def batches(
    pieces: Iterable[Piece], shapes: Shapes, spec: str, limit: int | None = None, *, labels: bool = False
) -> Iterator[Batch]:
    """Cut and join pieces to batches. The last one is filled up by repeating its own samples from its first.

    Args:
        pieces: what a reader gives.
        shapes: what the model takes.
        spec: the data, for messages.
        limit: samples after which it ends.
        labels: keep the labels, which must then be arrays.

    Raises:
        InputError: a shape or dtype does not fit, values are not finite, or there is not one sample.
    """
    rows: list[Batch] = []
    taken = 0
    for piece in pieces:
        one = _checked(piece, shapes, spec, taken, labels)
        left = one.samples if limit is None else min(one.samples, limit - taken)
        if one.samples:
            rows.append(_part(one, 0, left) if left < one.samples else one)
        taken += left
        rows = yield from _whole(rows, shapes.batch)
        if taken == limit:
            break
    if not taken:
        raise InputError(f"{spec} holds no sample; give at least one")
    if rows:
        yield _filled(_joined(rows), shapes.batch or 1)


def _whole(rows: list[Batch], size: int | None) -> Iterator[Batch]:
    """Give the batches that are full; returns what is left."""
    if size is None:
        yield from rows
        return []
    if sum(one.samples for one in rows) < size:
        return rows
    joined, start = _joined(rows), 0
    while joined.samples - start >= size:
        yield _part(joined, start, start + size)
        start += size
    return [_part(joined, start, joined.samples)] if start < joined.samples else []


def _joined(rows: Sequence[Batch]) -> Batch:
    if len(rows) == 1:
        return rows[0]
    feeds = {name: np.concatenate([one.feeds[name] for one in rows]) for name in rows[0].feeds}
    try:
        labels = tuple(np.concatenate(column) for column in zip(*(one.labels for one in rows), strict=True))
    except ValueError as error:
        raise InputError(f"the labels have different forms ({error}); give arrays of one shape for all samples") from None
    return Batch(feeds, labels, sum(one.samples for one in rows))


def _part(batch: Batch, start: int, end: int) -> Batch:
    feeds = {name: value[start:end] for name, value in batch.feeds.items()}
    return Batch(feeds, tuple(value[start:end] for value in batch.labels), end - start)


def _filled(batch: Batch, size: int) -> Batch:
    index = np.arange(size) % batch.samples
    return Batch({name: value[index] for name, value in batch.feeds.items()}, batch.labels, batch.samples)


def _checked(piece: Piece, shapes: Shapes, spec: str, taken: int, labels: bool) -> Batch:
    """One piece with the model's dtypes, and the first axis of every array for samples."""
    feeds = {name: _typed(name, value, shapes.dtypes[name], spec) for name, value in piece.values.items()}
    feeds = _with_samples(feeds, piece.table, shapes, spec)
    counts = {name: value.shape[0] for name, value in feeds.items()}
    if shapes.batch is not None and len(set(counts.values())) > 1:
        text = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InputError(f"{spec} has different numbers of samples in one piece ({text}); give as many of each")
    samples = next(iter(counts.values())) if shapes.batch is not None else 1
    for name, value in feeds.items():
        _require_finite(name, value, spec, taken)
    return Batch(feeds, _labels(piece, samples, shapes, spec) if labels else (), samples)


def _with_samples(feeds: dict[str, Array], table: bool, shapes: Shapes, spec: str) -> dict[str, Array]:
    """Arrays whose first axis counts samples (whole feeds where the inputs have no such axis in common)."""
    if shapes.batch is None:
        for name, value in feeds.items():
            _require_shape(name, value.shape, shapes.wanted[name], shapes, spec)
        return feeds
    found = {}
    for name, value in feeds.items():
        wanted = shapes.wanted[name]
        if value.ndim == len(wanted) + 1 and table:  # whole batches, one after the other
            _require_shape(name, value.shape[1:], wanted, shapes, spec)
            value = value.reshape(-1, *wanted[1:])
        elif value.ndim == len(wanted) - 1 and not table:  # one sample without an axis for batches
            value = value[None]
        _require_shape(name, value.shape, (*value.shape[:1], *wanted[1:]), shapes, spec)
        found[name] = value
    return found


def _require_shape(
    name: str, shape: tuple[int, ...], wanted: tuple[int, ...], shapes: Shapes, spec: str
) -> None:
    if shape != wanted:
        raise InputError(
            f"{name} in {spec} has the shape {list(shape)}, which does not fit the inputs {shapes.text}; every size "
            "but the number of samples must be that one"
        )


def _typed(name: str, value: Array, dtype: str, spec: str) -> Array:
    """``value`` as ``dtype``: floats may be rounded, integers must fit, other changes are refused."""
    kinds = (value.dtype.kind, np.dtype(dtype).kind)
    if value.dtype.name == dtype:
        return value
    integers = all(kind in "iu" for kind in kinds)
    if kinds != ("f", "f") and not integers:
        raise InputError(f"{name} in {spec} is {value.dtype}, but the model takes {dtype}; change one of them")
    with np.errstate(over="ignore"):
        result = value.astype(dtype)
    if integers and not np.array_equal(result, value):
        raise InputError(f"{name} in {spec} has values that do not fit into {dtype}; change one of them")
    return result


def _require_finite(name: str, value: Array, spec: str, taken: int) -> None:
    if value.dtype.kind != "f":
        return
    fine = np.isfinite(value)
    if not fine.all():
        where = tuple(int(place) for place in np.argwhere(~fine)[0])
        word = "NaN" if np.isnan(value[where]) else "infinity"
        raise InputError(
            f"{name} in {spec} holds {word} (first in sample {taken + (where[0] if where else 0)}); no range follows "
            "from that, so take such samples out"
        )


def _labels(piece: Piece, samples: int, shapes: Shapes, spec: str) -> tuple[Array, ...]:
    single = not piece.table and samples == 1
    return tuple(_label(value, samples, single, spec) for value in piece.labels)


def _label(value: Any, samples: int, single: bool, spec: str) -> Array:
    try:
        array = np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)
    except (ValueError, TypeError):
        array = np.asarray(None)
    if array.dtype.kind not in "fiubU":
        raise InputError(
            f"{spec} gives labels of the type {type(value).__name__}, and a metric gets arrays of numbers or texts; "
            "give the labels as such"
        )
    if single and array.shape[:1] != (1,):
        array = array[None]
    if array.shape[:1] != (samples,):
        count = array.shape[0] if array.ndim else 1
        raise InputError(f"{spec} gives {count} labels to {samples} samples; give one label to each")
    return array

"""From pieces of data to batches that the model takes: every dynamic dimension at its optimum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from convert.errors import InputError
from convert.quantize.labels import labels_of
from convert.quantize.pieces import Piece
from convert.records import Dim, InputSpec
from convert.specs import format_input, shape_at

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]


class Rows(NamedTuple):
    """Samples: feeds whose first axis counts them, and what came with each."""

    feeds: Feeds
    labels: list[tuple[Any, ...]] | None
    samples: int

    def part(self, start: int, end: int) -> Rows:
        """Some of them."""
        labels = None if self.labels is None else self.labels[start:end]
        return Rows({name: value[start:end] for name, value in self.feeds.items()}, labels, end - start)


class Batch(NamedTuple):
    """What the model takes at once.

    Attributes:
        feeds: array by input name.
        labels: what came with the samples: an array whose first axis counts them, a list where they make no array, a
            tuple of such where several things came; None where nothing came, or nobody asked.
        samples: how many there are; what follows in the feeds only fills the batch up and repeats these.
        room: the length of the feeds' first axis; 0 where this is one sample, whose axes count no samples.
    """

    feeds: Feeds
    labels: Any
    samples: int
    room: int = 0


@dataclass(frozen=True)
class Shapes:
    """What the model takes.

    Attributes:
        wanted: shape of every input at the optimum of every dimension.
        dtypes: by input name.
        batch: samples in a batch; None where the inputs have no first axis in common, so that samples stay whole.
        text: the inputs for people.
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
        batch = next(iter(wanted.values()))[0] if len(firsts) == 1 and None not in firsts else None
        at = ", ".join(f"{name}={size}" for name, size in opt.items())
        text = " ".join(f"'{format_input(spec)}'" for spec in specs) + (f" at {at}" if at else "")
        return cls(wanted, {spec.name: spec.dtype for spec in specs}, batch, text)


def batches(
    pieces: Iterable[Piece], shapes: Shapes, spec: str, limit: int | None = None, *, labels: bool = False
) -> Iterator[Batch]:
    """Cut and join pieces to batches. The last one is filled up by repeating its own samples.

    Args:
        pieces: what a reader gives.
        shapes: what the model takes.
        spec: the data, for messages.
        limit: samples after which it ends.
        labels: give the labels, too.

    Raises:
        InputError: a shape or dtype does not fit, values are not finite, or there is not one sample.
    """
    rows = _limited(_checked(pieces, shapes, spec, labels), limit)
    if shapes.batch is not None:
        rows = _in_batches(rows, shapes.batch)
    found = False
    for one in rows:
        found = True
        yield Batch(_filled(one, shapes.batch), _together(one.labels), one.samples, shapes.batch or 0)
    if not found:
        raise InputError(f"{spec} holds no sample; give at least one")


def _limited(rows: Iterable[Rows], limit: int | None) -> Iterator[Rows]:
    taken = 0
    for one in rows:
        if limit is not None and taken + one.samples >= limit:
            yield one.part(0, limit - taken) if limit < taken + one.samples else one
            return
        taken += one.samples
        yield one


def _in_batches(rows: Iterable[Rows], size: int) -> Iterator[Rows]:
    waiting: list[Rows] = []
    for one in rows:
        waiting += [one] if one.samples else []
        if sum(other.samples for other in waiting) < size:
            continue
        joined, start = _joined(waiting), 0
        while joined.samples - start >= size:
            yield joined.part(start, start + size)
            start += size
        waiting = [joined.part(start, joined.samples)] if start < joined.samples else []
    if waiting:
        yield _joined(waiting)


def _joined(rows: Sequence[Rows]) -> Rows:
    if len(rows) == 1:
        return rows[0]
    feeds = {name: np.concatenate([one.feeds[name] for one in rows]) for name in rows[0].feeds}
    known = [one.labels for one in rows if one.labels is not None]
    labels = [label for some in known for label in some] if len(known) == len(rows) else None
    return Rows(feeds, labels, sum(one.samples for one in rows))


def _filled(one: Rows, size: int | None) -> Feeds:
    if size is None or one.samples == size:
        return one.feeds
    index = np.arange(size) % one.samples
    return {name: value[index] for name, value in one.feeds.items()}


def _together(labels: list[tuple[Any, ...]] | None) -> Any:
    if not labels or not labels[0]:
        return None
    columns = tuple(_column(list(column)) for column in zip(*labels, strict=True))
    return columns[0] if len(columns) == 1 else columns


def _column(values: list[Any]) -> Any:
    plain = [value.detach().cpu().numpy() if hasattr(value, "detach") else value for value in values]
    try:
        found = np.stack([np.asarray(value) for value in plain])
    except ValueError:  # each has another shape
        return plain
    return found if found.dtype.kind in "fiubU" else plain


def _checked(pieces: Iterable[Piece], shapes: Shapes, spec: str, labels: bool) -> Iterator[Rows]:
    """Pieces with the model's dtypes, and the first axis of every array for samples."""
    taken = 0
    for piece in pieces:
        feeds = {name: _typed(name, value, shapes.dtypes[name], spec) for name, value in piece.values.items()}
        for name, value in feeds.items():
            _require_finite(name, value, spec, taken)
        if shapes.batch is None:
            yield from _whole(feeds, piece, shapes, spec, labels)
            taken += 1
            continue
        single = not piece.table and all(value.ndim == len(shapes.wanted[name]) - 1 for name, value in feeds.items())
        feeds = {name: _with_samples(name, value, single, piece.table, shapes, spec) for name, value in feeds.items()}
        samples = _samples_of(feeds, spec)
        taken += samples
        yield Rows(feeds, labels_of(piece.labels, samples, single, spec) if labels else None, samples)


def _samples_of(feeds: Feeds, spec: str) -> int:
    counts = {name: int(value.shape[0]) for name, value in feeds.items()}
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InputError(f"the arrays in {spec} have different numbers of samples ({text}); give as many of each")
    return next(iter(counts.values()))


def _whole(feeds: Feeds, piece: Piece, shapes: Shapes, spec: str, labels: bool) -> Iterator[Rows]:
    """Inputs without a first axis in common are fed as they are, one sample at a time."""
    if not piece.table:
        for name, value in feeds.items():
            _require_shape(name, value.shape, shapes.wanted[name], shapes, spec)
        yield Rows(feeds, labels_of(piece.labels, 1, True, spec) if labels else None, 1)
        return
    for name, value in feeds.items():
        _require_shape(name, value.shape, (*value.shape[:1], *shapes.wanted[name]), shapes, spec)
    samples = _samples_of(feeds, spec)
    told = labels_of(piece.labels, samples, False, spec) if labels else None
    for index in range(samples):
        one = {name: value[index] for name, value in feeds.items()}
        yield Rows(one, None if told is None else told[index : index + 1], 1)


def _with_samples(name: str, value: Array, single: bool, table: bool, shapes: Shapes, spec: str) -> Array:
    """``value`` with a first axis that counts samples."""
    wanted = shapes.wanted[name]
    if single:
        value = value[None]
    elif table and value.ndim == len(wanted) + 1:  # whole batches, one after the other
        _require_shape(name, value.shape[1:], wanted, shapes, spec)
        value = value.reshape(-1, *wanted[1:])
    _require_shape(name, value.shape, (*value.shape[:1], *wanted[1:]), shapes, spec)
    return value


def _require_shape(name: str, shape: tuple[int, ...], wanted: tuple[int, ...], shapes: Shapes, spec: str) -> None:
    if shape != wanted:
        raise InputError(
            f"{name} in {spec} has the shape {list(shape)}, which does not fit the inputs {shapes.text}; every size "
            "but the number of samples must be the one there"
        )


def _typed(name: str, value: Array, dtype: str, spec: str) -> Array:
    """``value`` as ``dtype``: floats may be rounded, integers must fit, other changes are refused."""
    kinds = (value.dtype.kind, np.dtype(dtype).kind)
    if value.dtype.name == dtype and value.dtype.isnative:
        return value
    integers = all(kind in "iu" for kind in kinds)
    if value.dtype.name != dtype and kinds != ("f", "f") and not integers:
        raise InputError(f"{name} in {spec} is {value.dtype}, but the model takes {dtype}; change one of them")
    with np.errstate(over="ignore"):
        result = value.astype(dtype)
    if integers and not np.array_equal(result, value):
        raise InputError(f"{name} in {spec} has values that do not fit into {dtype}; change one of them")
    if not integers and bool((np.isinf(result) & np.isfinite(value)).any()):
        raise InputError(f"{name} in {spec} has values too large for {dtype}; change one of them")
    return result


def _require_finite(name: str, value: Array, spec: str, taken: int) -> None:
    if value.dtype.kind != "f" or np.isfinite(value).all():
        return
    first = np.argwhere(~np.isfinite(value))[0]
    word = "NaN" if np.isnan(value[tuple(first)]) else "infinity"
    where = f"first at {taken + int(first[0])}" if first.size else "its only value"
    raise InputError(
        f"{name} in {spec} holds {word} ({where}, counted from 0 along the first axis of all); no range of integers "
        "holds that, so take such samples out"
    )

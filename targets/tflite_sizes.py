"""Sizes computed at run time: from the shape of a tensor that is there, with operators of the file itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from convert.errors import StageError
from convert.targets.tflite_graph import Array, schema
from convert.targets.tflite_twins import Twins

#: A size in the first and in the second file.
Pair = tuple[int, int]


@dataclass(frozen=True)
class Source:
    """``factor * size of an axis + more``."""

    tensor: int
    axis: int
    factor: int
    more: int


class Sizes:
    """Makes vectors of sizes, each size from an axis that was seen to grow in the same way."""

    def __init__(self, twins: Twins) -> None:
        """For one subgraph; ``twins.first`` gets the operators."""
        self._twins, self._graph = twins, twins.first
        self._known = list(self._graph.body.inputs)
        self._made: dict[Source, int] = {}

    def passed(self, tensors: Iterable[int]) -> None:
        """Tell what is computed by now, so that sizes may be taken from it."""
        self._known += tensors

    def vector(self, first: Array, second: Array, near: Sequence[int]) -> int:
        """The tensor of a size vector that is ``first`` and ``second`` in the two files.

        Args:
            first: int32 ``[rank]``.
            second: int32 ``[rank]``.
            near: tensors to look at first.

        Raises:
            StageError: a size follows no axis of any tensor.
        """
        pairs = [(int(a), int(b)) for a, b in zip(first, second, strict=True)]
        parts = [self._graph.ints(a) if a == b else self._size((a, b), near) for a, b in pairs]
        if len(parts) == 1:
            return parts[0]
        return self._graph.add("CONCATENATION", parts, (len(parts),), axis=0)

    def _size(self, pair: Pair, near: Sequence[int]) -> int:
        """The tensor, int32 ``[1]``, of one size."""
        key = self._source(pair, near)
        if key not in self._made:
            self._made[key] = self._compute(key)
        return self._made[key]

    def _compute(self, source: Source) -> int:
        graph = self._graph
        shape = graph.add(
            "SHAPE", [source.tensor], (len(graph.shape(source.tensor)),), outType=schema().TensorType.INT32
        )
        places = [graph.ints(source.axis), graph.ints(source.axis + 1), graph.ints(1)]
        size = graph.add("STRIDED_SLICE", [shape, *places], (1,))
        if source.factor != 1:
            size = graph.add("MUL", [size, graph.ints(source.factor)], (1,))
        return graph.add("ADD", [size, graph.ints(source.more)], (1,)) if source.more else size

    def _source(self, pair: Pair, near: Sequence[int]) -> Source:
        """The axis whose size is ``pair``; else a part of it; else, what differs from it by the least."""
        found = [source for tensor in (*near, *self._known) for source in self._of(tensor, pair)]
        if not found:
            raise StageError(f"a size that is {pair[0]} at one size and {pair[1]} at another follows no tensor's")
        return min(found, key=lambda source: (abs(source.more), source.factor != 1))

    def _of(self, tensor: int, pair: Pair) -> Iterator[Source]:
        if self._graph.data(tensor) is not None:
            return
        for axis, (a, b) in enumerate(zip(*self._twins.shapes[tensor], strict=True)):
            if a != b and min(a, b) > 0 and pair[0] % a == 0 and pair[0] * b == pair[1] * a:
                yield Source(tensor, axis, pair[0] // a, 0)
            elif a != b and pair[0] - a == pair[1] - b:
                yield Source(tensor, axis, 1, pair[0] - a)


def shrunk(first: Array, second: Array) -> Array | None:
    """A constant that only repeats along the axes where it grows: one of each; None where it holds other values."""
    axes = [axis for axis, (a, b) in enumerate(zip(first.shape, second.shape, strict=True)) if a != b]
    small = first[tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(first.ndim))]
    same = all(np.array_equal(np.broadcast_to(small, whole.shape), whole) for whole in (first, second))
    return small if axes and same else None


def prolonged(first: Array, second: Array) -> Array | None:
    """A constant whose smaller value is the beginning of the larger: the larger; None where it is not."""
    big, little = (first, second) if first.size > second.size else (second, first)
    if any(a < b for a, b in zip(big.shape, little.shape, strict=True)):
        return None
    start = big[tuple(slice(0, size) for size in little.shape)]
    return big if np.array_equal(start, little) else None

"""Two TFLite files of one module at different sizes: are they the same graph, and which constants differ?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from convert.errors import StageError
from convert.targets.tflite_graph import Array, Graph, Shape

ABSENT = -1


class Twins:
    """The same subgraph in both files. Operators and their inputs correspond by position; numbers of tensors need not.

    Attributes:
        first: the file that becomes the result.
        second: the file at other sizes, which is only read.
        shapes: tensor of ``first`` -> its sizes in both files.
    """

    def __init__(self, first: Graph, second: Graph) -> None:
        """Pair the subgraphs.

        Raises:
            StageError: they are not the same graph.
        """
        self.first, self.second = first, second
        self.operators = list(zip(first.body.operators, second.body.operators, strict=False))
        self.shapes: dict[int, tuple[Shape, Shape]] = {}
        self._require_same_operators()
        for one, other in self._tensors():
            self.shapes[one] = (first.shape(one), second.shape(other))
            self._require_same_kind(one, other)

    def _tensors(self) -> Iterator[tuple[int, int]]:
        ends = [(self.first.body.inputs, self.second.body.inputs), (self.first.body.outputs, self.second.body.outputs)]
        for one, other in self.operators:
            ends += [(one.inputs, other.inputs), (one.outputs, other.outputs)]
        for ours, theirs in ends:
            yield from ((a, b) for a, b in zip(ours, theirs, strict=True) if a != ABSENT)

    def _require_same_operators(self) -> None:
        ours, theirs = len(self.first.body.operators), len(self.second.body.operators)
        if ours != theirs:
            raise StageError(
                f"litert-torch writes {ours} operators at one size and {theirs} at another: it unrolls a dynamic size"
            )
        for at, (one, other) in enumerate(self.operators):
            name, twin = self.first.name_of(one), self.second.name_of(other)
            if name != twin or len(one.inputs) != len(other.inputs) or len(one.outputs) != len(other.outputs):
                raise StageError(f"operator {at} is {name} at one size and {twin} at another")
            if not _alike(_options(one), _options(other)):
                raise StageError(f"operator {at} ({name}) has a setting that depends on a dynamic size")
            if [a == ABSENT for a in one.inputs] != [b == ABSENT for b in other.inputs]:
                raise StageError(f"operator {at} ({name}) has another number of inputs at another size")

    def _require_same_kind(self, one: int, other: int) -> None:
        (ours, theirs), tensors = self.shapes[one], (self.first.body.tensors[one], self.second.body.tensors[other])
        if tensors[0].type != tensors[1].type or len(ours) != len(theirs):
            raise StageError(f"a tensor of shape {list(ours)} has another rank or type at another size")
        if (self.first.data(one) is None) != (self.second.data(other) is None):
            raise StageError(f"a tensor of shape {list(ours)} is constant at one size and computed at another")

    def differing(self, at: int) -> Mapping[int, tuple[Array, Array]]:
        """The inputs of operator ``at`` that are constants and differ: position -> both values."""
        one, other = self.operators[at]
        found = {}
        for slot, (a, b) in enumerate(zip(one.inputs, other.inputs, strict=True)):
            if a == ABSENT or self.first.data(a) is None:
                continue
            if self.first.shape(a) != self.second.shape(b) or self.first.data(a) != self.second.data(b):
                found[slot] = (self.first.value(a), self.second.value(b))
        return found


def require_same_model(first: Any, second: Any) -> None:
    """Whether both files have the same subgraphs.

    Raises:
        StageError: they have not.
    """
    ours, theirs = len(first.subgraphs), len(second.subgraphs)
    if ours != theirs:
        raise StageError(f"litert-torch writes {ours} subgraphs at one size and {theirs} at another")


def _options(operator: Any) -> tuple[Any, ...]:
    return operator.builtinOptions, operator.builtinOptions2, operator.customOptions


def _alike(one: Any, other: Any) -> bool:
    """Equal in everything, however deep; generated classes have no equality of their own."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(_alike(a, b) for a, b in zip(one, other, strict=True))
    if hasattr(one, "__dict__"):
        return type(one) is type(other) and _alike(list(vars(one).items()), list(vars(other).items()))
    return bool(one == other)

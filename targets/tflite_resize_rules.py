"""What becomes of a constant that depends on a dynamic size, operator by operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from convert.errors import StageError
from convert.targets.tflite_graph import Array, Graph, Shape
from convert.targets.tflite_sizes import Sizes, prolonged, shrunk
from convert.targets.tflite_twins import Twins

Differing = Mapping[int, tuple[Array, Array]]
#: Operators that repeat an input of size 1 along an axis.
_BROADCASTING = frozenset(
    {
        *("ADD", "SUB", "MUL", "DIV", "POW", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "SELECT_V2"),
        *("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "LOGICAL_AND", "LOGICAL_OR"),
    }
)
#: Operator -> the input that is a vector of sizes.
_SIZES = {"FILL": 0, "BROADCAST_TO": 1, "TILE": 1, "RESIZE_BILINEAR": 1, "RESIZE_NEAREST_NEIGHBOR": 1}
#: Inputs of other operators that say sizes or places, where a value cannot simply be made at run time.
_PLACES = {"PAD": 1, "PADV2": 1, "TRANSPOSE_CONV": 0, "SCATTER_ND": 2, "DYNAMIC_UPDATE_SLICE": 2, "RANGE": 1}


@dataclass(frozen=True)
class Step:
    """One operator, in the first file, and what is known of its twin."""

    graph: Graph
    twins: Twins
    sizes: Sizes
    operator: Any

    @property
    def computed(self) -> list[int]:
        """The inputs that are computed in both files."""
        return [i for i in self.operator.inputs if i in self.twins.shapes and self.graph.data(i) is None]

    def shapes(self, slot: int) -> tuple[Shape, Shape]:
        """The sizes of an input in both files."""
        return self.twins.shapes[self.operator.inputs[slot]]

    def both(self, slot: int, differing: Differing) -> tuple[Array, Array]:
        """An input that is constant, whether or not it differs."""
        if slot in differing:
            return differing[slot]
        value = self.graph.value(self.operator.inputs[slot])
        return value, value


def adapt(step: Step, differing: Differing) -> None:
    """Change the operator so that none of the constants in ``differing`` is needed; may add operators before it.

    Raises:
        StageError: that is not known for this operator.
    """
    name = step.graph.name_of(step.operator)
    rule = _RULES.get(name)
    if rule is not None:
        rule(step, differing)
        return
    for slot, (first, second) in differing.items():
        if _SIZES.get(name) == slot:
            step.operator.inputs[slot] = step.sizes.vector(first, second, step.computed)
        elif _PLACES.get(name) == slot:
            raise StageError(f"{name} has places that depend on a dynamic size")
        else:
            step.operator.inputs[slot] = _value(step, name, slot, first, second)


def _value(step: Step, name: str, slot: int, first: Array, second: Array) -> int:
    """A constant that grows with a dynamic size: one that is broadcast, or a part of the largest one."""
    if first.shape == second.shape:
        raise StageError(f"{name} takes a constant whose values depend on a dynamic size")
    small = shrunk(first, second)
    if small is not None and name in _BROADCASTING and _others_grow(step, slot):
        return step.graph.constant(small)
    wanted = step.sizes.vector(*_shapes_of(first, second), step.computed)
    kind = step.graph.body.tensors[step.operator.inputs[slot]].type
    if small is not None:
        return step.graph.add("BROADCAST_TO", [step.graph.constant(small), wanted], first.shape, kind)
    large = prolonged(first, second)
    if large is None:
        raise StageError(f"{name} takes a constant whose values depend on a dynamic size")
    start, ones = step.graph.ints(*[0] * large.ndim), step.graph.ints(*[1] * large.ndim)
    # SLICE refuses another size at the second run, since both its input and its places were constant at the first.
    return step.graph.add("STRIDED_SLICE", [step.graph.constant(large), start, wanted, ones], first.shape, kind)


def _shapes_of(first: Array, second: Array) -> tuple[Array, Array]:
    return np.array(first.shape, np.int32), np.array(second.shape, np.int32)


def _others_grow(step: Step, slot: int) -> bool:
    """Whether each axis along which the constant grows grows in another, computed input as well."""
    ours = _growing(step, step.operator.inputs[slot])
    others = [_growing(step, tensor) for tensor in step.computed]
    return ours <= {axis for one in others for axis in one}


def _growing(step: Step, tensor: int) -> set[int]:
    """The axes, counted from the last (-1), that differ in size."""
    first, second = step.twins.shapes[tensor]
    return {axis - len(first) for axis, (a, b) in enumerate(zip(first, second, strict=True)) if a != b}


def _reshape(step: Step, differing: Differing) -> None:
    first, second = differing[1]
    differ = np.flatnonzero(first != second)
    step.operator.builtinOptions, step.operator.builtinOptionsType = None, 0
    if len(differ) == 1:
        # The runtime works it out from the number of elements.
        open_ended = first.copy()
        open_ended[differ[0]] = -1
        step.operator.inputs[1] = step.graph.ints(*open_ended)
    elif not _by_ones(step, [(int(a), int(b)) for a, b in zip(first, second, strict=True)]):
        step.operator.inputs[1] = step.sizes.vector(first, second, step.computed)


def _by_ones(step: Step, wanted: Sequence[tuple[int, int]]) -> bool:
    """Write a reshape that only takes away and puts in axes of size 1 without stating any size.

    It keeps the shapes known before the run, which a computed shape does not and which XNNPACK needs.
    """
    have = list(zip(*step.shapes(0), strict=True))
    if [pair for pair in have if pair != (1, 1)] != [pair for pair in wanted if pair != (1, 1)]:
        return False
    gone = [axis for axis, pair in enumerate(have) if pair == (1, 1)]
    new = [axis for axis, pair in enumerate(wanted) if pair == (1, 1)]
    if not gone and not new:
        return False
    graph, tensor = step.graph, step.operator.inputs[0]
    kind, shape = graph.body.tensors[tensor].type, [a for a, _ in have]
    if gone and new:
        shape = [a for axis, (a, _) in enumerate(have) if axis not in gone]
        tensor = graph.add("SQUEEZE", [tensor], shape, kind, squeezeDims=gone)
    if not new:
        graph.become(step.operator, "SQUEEZE", squeezeDims=gone)
        step.operator.inputs = [tensor]
        return True
    for axis in new[:-1]:
        shape = [*shape[:axis], 1, *shape[axis:]]
        tensor = graph.add("EXPAND_DIMS", [tensor, graph.ints(axis)], shape, kind)
    graph.become(step.operator, "EXPAND_DIMS")
    step.operator.inputs = [tensor, graph.ints(new[-1])]
    return True


def _slice(step: Step, differing: Differing) -> None:
    begins, sizes = step.both(1, differing), step.both(2, differing)
    whole = step.shapes(0)
    rest = [
        np.where(sizes[0] != sizes[1], shape - begin, size)
        for shape, begin, size in zip((np.array(whole[0]), np.array(whole[1])), begins, sizes, strict=True)
    ]
    if np.array_equal(*begins) and all(np.array_equal(a, b) for a, b in zip(rest, sizes, strict=True)):
        step.operator.inputs[2] = step.graph.ints(*np.where(sizes[0] != sizes[1], -1, sizes[0]))
        return
    ends = tuple(begin + size for begin, size in zip(begins, sizes, strict=True))
    tensor = step.operator.inputs[0]
    begin, _ = _places(begins, whole, "SLICE")
    end, mask = _places((ends[0], ends[1]), whole, "SLICE")
    ones = step.graph.ints(*[1] * len(begin))
    step.operator.inputs = [tensor, step.graph.ints(*begin), step.graph.ints(*end), ones]
    step.graph.become(step.operator, "STRIDED_SLICE", endMask=mask)


def _strided_slice(step: Step, differing: Differing) -> None:
    options = step.operator.builtinOptions
    _, strides = step.both(3, differing)
    if 3 in differing or (strides < 0).any() or options.ellipsisMask or options.newAxisMask:
        raise StageError("STRIDED_SLICE goes backwards or adds axes, with places that depend on a dynamic size")
    whole = step.shapes(0)
    begin, _ = _places(step.both(1, differing), whole, "STRIDED_SLICE")
    end, mask = _places(step.both(2, differing), whole, "STRIDED_SLICE")
    step.operator.inputs[1], step.operator.inputs[2] = step.graph.ints(*begin), step.graph.ints(*end)
    options.endMask |= mask


def _places(places: tuple[Array, Array], whole: tuple[Shape, Shape], name: str) -> tuple[list[int], int]:
    """Places along each axis, counted from its end where they move with it, and the mask of those at the very end."""
    found, mask = [], 0
    for axis, (a, b) in enumerate(zip(*places, strict=True)):
        from_end = int(a) - whole[0][axis], int(b) - whole[1][axis]
        if a != b and from_end[0] != from_end[1]:
            raise StageError(f"{name} cuts at {a} at one size and at {b} at another, and that is no fixed distance")
        found.append(int(a) if a == b else from_end[0])
        mask |= (a != b and from_end[0] == 0) << axis
    return found, int(mask)


_RULES: dict[str, Callable[[Step, Differing], None]] = {
    "RESHAPE": _reshape,
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
}

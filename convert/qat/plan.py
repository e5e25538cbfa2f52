"""The graph of a prepared module as plain data, and which of its tensors share which scale. Imports no toolkit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from convert.errors import InputError


class Kind(StrEnum):
    """What a step means for scales."""

    INPUT = "input"
    LAYER = "layer"  # weights and bias; its result has a range of its own
    COMPUTE = "compute"  # result with a range of its own
    ACTIVATION = "activation"  # the same, and part of the step before it where that allows
    FIXED = "fixed"  # result on a grid that TFLite prescribes
    MOVE = "move"  # values are moved and not changed: same scale
    POOL = "pool"  # same scale, rounded again
    CONCAT = "concat"  # all inputs and the result have one scale
    NUMBER = "number"  # a size or what is computed from sizes
    CONSTANT = "constant"  # a weight that is added or multiplied


@dataclass(frozen=True)
class Ref:
    """The result of another step, as an argument."""

    name: str


@dataclass(frozen=True)
class Step:
    """One operator of the graph.

    Attributes:
        name: unique; that of the node it came from.
        target: operator, such as ``aten.conv2d.default``; of an input or constant its own name.
        args, kwargs: as the operator takes them, with :class:`Ref` for results; weights of a layer are left out.
        path: of a layer, where its weights lie in the module; of a constant, the name of the tensor.
    """

    name: str
    kind: Kind
    target: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    path: str = ""

    @property
    def operator(self) -> str:
        """The bare name: ``conv2d``."""
        return self.target.split(".")[1] if "." in self.target else self.target

    def refs(self) -> list[str]:
        """Names of the steps that this one reads, in order."""
        return [item.name for item in references((self.args, self.kwargs))]


@dataclass(frozen=True)
class Point:
    """What a step's result is quantized with.

    Attributes:
        group: key of the range.
        site: which of the group's places this is; None for a result that has the range without shaping it.
    """

    group: str
    site: int | None


@dataclass(frozen=True)
class Scales:
    """Which tensor has which range.

    Attributes:
        group: step -> key of the range that its result has, for every step that gives a tensor; the result of a layer
            whose activation is fused has the activation's.
        points: step -> how its result is rounded; steps that only move values have none, nor has the first of a fused
            pair.
        edges: (step, name of the step it reads) -> how that value is rounded again on the way in.
        sites: group -> number of places that shape it.
        fixed: group -> operator whose grid it has.
    """

    group: dict[str, str]
    points: dict[str, Point]
    edges: dict[tuple[str, str], Point]
    sites: dict[str, int]
    fixed: dict[str, str]


_FUSES = {"conv2d", "linear", "add", "sub", "mul"}


def references(value: Any) -> Iterator[Ref]:
    """Every :class:`Ref` in nested tuples, lists and dicts."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from references(item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from references(item)


def substitute(value: Any, put: Callable[[Ref], Any]) -> Any:
    """``value`` with every :class:`Ref` replaced by what ``put`` gives for it."""
    if isinstance(value, Ref):
        return put(value)
    if isinstance(value, Mapping):
        return {key: substitute(item, put) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(substitute(item, put) for item in value)
    return value


def renamed(step: Step, names: Mapping[str, str]) -> Step:
    """``step`` reading ``names[x]`` wherever it reads ``x``."""

    def put(ref: Ref) -> Ref:
        return Ref(names.get(ref.name, ref.name))

    return replace(step, args=substitute(step.args, put), kwargs=substitute(step.kwargs, put))


def readers(steps: Sequence[Step], outputs: Sequence[str]) -> dict[str, list[str]]:
    """Step -> who reads it, an output of the graph counting as the reader ``""``."""
    found: dict[str, list[str]] = {step.name: [] for step in steps}
    for step in steps:
        for name in step.refs():
            found[name].append(step.name)
    for name in outputs:
        found[name].append("")
    return found


def fused(steps: Sequence[Step], outputs: Sequence[str]) -> dict[str, str]:
    """Step -> the activation that the runtime computes along with it, so that the value in between is never rounded."""
    read_by = readers(steps, outputs)
    known = {step.name: step for step in steps}
    found = {}
    for step in steps:
        if step.kind is Kind.ACTIVATION:
            before = known[step.refs()[0]]
            if before.operator in _FUSES and read_by[before.name] == [step.name]:
                found[before.name] = step.name
    return found


def find_scales(steps: Sequence[Step], outputs: Sequence[str]) -> Scales:
    """Give every tensor its range: shared where the integer kernels demand it, else its own."""
    return _Finder(steps, outputs).find()


class _Finder:
    def __init__(self, steps: Sequence[Step], outputs: Sequence[str]) -> None:
        self.steps = [step for step in steps if step.kind not in (Kind.NUMBER, Kind.CONSTANT)]
        self.fused = fused(steps, outputs)
        self.parent: dict[str, str] = {}
        self.fixed: dict[str, str] = {}

    def find(self) -> Scales:
        for step in self.steps:
            self._join(step)
        group = {step.name: self._root(step.name) for step in self.steps}
        points: dict[str, Point] = {}
        edges: dict[tuple[str, str], Point] = {}
        sites: dict[str, int] = {}

        def site(key: str) -> int | None:
            if key in self.fixed:
                return None
            sites[key] = sites.get(key, 0) + 1
            return sites[key] - 1

        for step in self.steps:
            key = group[step.name]
            if step.kind is Kind.POOL:
                points[step.name] = Point(key, None)
            elif step.kind is Kind.CONCAT:
                for name in dict.fromkeys(step.refs()):
                    if group[name] != key:
                        edges[step.name, name] = Point(key, site(key))
            elif step.kind is not Kind.MOVE and step.name not in self.fused:
                points[step.name] = Point(key, site(key))
        return Scales(group, points, edges, sites, self.fixed)

    def _join(self, step: Step) -> None:
        self.parent[step.name] = step.name
        tensors = [name for name in step.refs() if name in self.parent]
        if step.kind is Kind.FIXED:
            self.fixed[step.name] = step.operator
        elif step.kind in (Kind.MOVE, Kind.POOL):
            self._unite(step.name, tensors[0])
        elif step.kind is Kind.CONCAT:
            for name in tensors:
                # A prescribed grid cannot be widened: such a value is rounded again on its way in.
                if self._root(name) not in self.fixed:
                    self._unite(step.name, name)
        elif step.kind is Kind.ACTIVATION and self.fused.get(tensors[0]) == step.name:
            # Saturating at the ends of the activation's range is what the activation does.
            self._unite(step.name, tensors[0])

    def _unite(self, later: str, earlier: str) -> None:
        self.parent[self._root(later)] = self._root(earlier)

    def _root(self, name: str) -> str:
        while self.parent[name] != name:
            name = self.parent[name]
        return name


def require_quantizable(steps: Sequence[Step], outputs: Sequence[str]) -> None:
    """Refuse what the integer writer has no operator for although the kind is known.

    Raises:
        InputError: names the operator.
    """
    inside = fused(steps, outputs).values()
    for step in steps:
        if step.kind is Kind.ACTIVATION and step.name not in inside and step.operator != "relu":
            raise InputError(
                f"{step.operator} ({step.name}) does not directly follow a convolution, linear layer, addition or "
                "multiplication that nothing else reads, and has no int8 operator of its own; move it there or use ReLU"
            )

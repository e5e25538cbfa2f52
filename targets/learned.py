"""Placing ranges that were learned in training on the tensors of a converted file; the same for every format.

A program that ``convert.qat.save`` wrote has a range for every value of its graph. A converter fuses, splits and moves
operators, so each tensor of its file is traced back to one of these values in three ways, best first: by the names that
the converter kept, by the structure (walking from the inputs, an operator is known by its kind and by what it reads),
and by its values. Whatever is found that way is believed only if the tensor really holds the values of the program on
several inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convert.errors import StageError
from convert.golden_io import load_case
from convert.targets.base import BuildRequest
from convert.targets.ranges import Range

Array = np.ndarray[Any, Any]
#: Largest distance, as a share of the tensor's largest value, at which a tensor still holds a value of the program.
_CLOSE = 1e-3
_CASES = 3


@dataclass(frozen=True)
class Learned:
    """The graph of the program.

    Attributes:
        ranges: value -> range, in the order in which the values are computed.
        inputs: the values that the program takes, in order.
        operators: value -> what computes it, in the words of torch.
        reads: value -> the values that it is computed from.
        moved: values that are others in another place or shape.
        inside: value -> the activation that alone reads it and is computed along with it.
    """

    ranges: dict[str, Range]
    inputs: tuple[str, ...]
    operators: dict[str, str]
    reads: dict[str, tuple[str, ...]]
    moved: frozenset[str]
    inside: dict[str, str]

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> Learned:
        """From what ``convert.qat.save`` wrote beside the program (``BuildRequest.ranges``)."""
        points = written["points"]
        return cls(
            ranges={name: (float(point["low"]), float(point["high"])) for name, point in points.items()},
            inputs=tuple(written["inputs"]),
            operators={name: str(point["operator"]) for name, point in points.items()},
            reads={name: tuple(point["reads"]) for name, point in points.items()},
            moved=frozenset(name for name, point in points.items() if point["moved"]),
            inside={name: str(point["inside"]) for name, point in points.items() if point["inside"]},
        )

    def origin(self, value: str) -> str:
        """The value that ``value`` is, moves and fused activations aside."""
        before = {activation: name for name, activation in self.inside.items()}
        while value in self.moved or value in before:
            value = before[value] if value in before else self.reads[value][0]
        return value


@dataclass(frozen=True)
class Node:
    """An operator of the file: its kind, the tensors that it reads (no constants), and those that it gives."""

    kind: str
    reads: tuple[str, ...]
    gives: tuple[str, ...]


@dataclass(frozen=True)
class Kinds:
    """What the operators of a format are in the words of torch; ``movers`` change no value."""

    operators: Mapping[str, Collection[str]]
    movers: Collection[str]


@dataclass
class Placed:
    """Tensor -> range, how each was found, and the tensors that are none of the program's values."""

    ranges: dict[str, Range] = field(default_factory=dict)
    by: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)

    @property
    def note(self) -> str:
        """For the report."""
        ways = [f"{list(self.by.values()).count(way)} by {way}" for way in ("name", "structure", "value")]
        text = f"ranges learned in training, placed on {len(self.ranges)} tensors ({', '.join(ways)})"
        return f"{text}; {len(self.unknown)} tensors have none and stay float" if self.unknown else text


def feeds_of(request: BuildRequest) -> list[dict[str, Array]]:
    """Inputs to tell values apart by: the first cases that are drawn or real, at the usual sizes."""
    opt = {dim.name: dim.opt for dim in request.golden.dims}
    cases = [case for case in request.golden.cases if case.dims == opt and case.origin != "edge"]
    return [load_case(request.golden_folder, case).feeds for case in cases[:_CASES]]


def program_values(program: Any, names: Sequence[str], feeds: Mapping[str, Array]) -> dict[str, Array]:
    """What every value of a saved program is for ``feeds``; ``names`` are its inputs in order."""
    import torch

    found: dict[str, Array] = {}

    class Recorder(torch.fx.Interpreter):
        def run_node(self, node: Any) -> Any:
            result = super().run_node(node)
            stack = list((node.meta.get("nn_module_stack") or {}).values())
            if stack and isinstance(result, torch.Tensor):
                found[str(stack[-1][0]).rpartition(".")[2]] = result.numpy()
            return result

    with torch.no_grad():
        Recorder(program.module(check_guards=False)).run(*(torch.from_numpy(feeds[name]) for name in names))
    return found


def place(
    learned: Learned,
    nodes: Sequence[Node],
    inputs: Sequence[str],
    kinds: Kinds,
    names: Mapping[str, Sequence[str]],
    truth: Sequence[Mapping[str, Array]],
    tensors: Sequence[Mapping[str, Array]],
) -> Placed:
    """Give every tensor of a file its learned range.

    Args:
        learned: the program's graph.
        nodes: the file's operators in order.
        inputs: the tensors that it takes, in the order of the program's.
        kinds: what its operators are.
        names: tensor -> values of the program that its name speaks of, earliest first.
        truth: the program's values for several inputs.
        tensors: the file's for the same inputs.

    Raises:
        StageError: a tensor may be either of two values with different ranges.
    """
    return _Placing(learned, kinds, names, truth, tensors).run(nodes, inputs)


class _Placing:
    def __init__(
        self,
        learned: Learned,
        kinds: Kinds,
        names: Mapping[str, Sequence[str]],
        truth: Sequence[Mapping[str, Array]],
        tensors: Sequence[Mapping[str, Array]],
    ) -> None:
        self.learned, self.kinds, self.names = learned, kinds, names
        self.truth = {name: _fingerprints(truth, name) for name in learned.ranges}
        self.tensors = tensors
        self.placed = Placed()
        #: Tensor -> the value that it is, as far as the walk has come.
        self.known: dict[str, str] = {}
        self.by_reads: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for name, operator in learned.operators.items():
            if name not in learned.moved:
                key = (operator, tuple(sorted(learned.origin(item) for item in learned.reads[name])))
                self.by_reads.setdefault(key, []).append(name)

    def run(self, nodes: Sequence[Node], inputs: Sequence[str]) -> Placed:
        for tensor, value in zip(inputs, self.learned.inputs, strict=True):
            self._put(tensor, value, "name")
        for node in nodes:
            if node.kind in self.kinds.movers and node.reads:
                self._move(node)
                continue
            for tensor in node.gives:
                self._find(node, tensor)
        return self.placed

    def _put(self, tensor: str, value: str, way: str) -> None:
        self.known[tensor] = self.learned.origin(value)
        self.placed.ranges[tensor] = self.learned.ranges[value]
        self.placed.by[tensor] = way

    def _move(self, node: Node) -> None:
        source = node.reads[0]
        for tensor in node.gives:
            if source in self.known:
                self.known[tensor] = self.known[source]
            if source in self.placed.ranges:
                self.placed.ranges[tensor] = self.placed.ranges[source]
                self.placed.by[tensor] = self.placed.by[source]
            else:
                self.placed.unknown.append(tensor)

    def _find(self, node: Node, tensor: str) -> None:
        prints = _fingerprints(self.tensors, tensor)
        if not prints:  # no floating tensor, or one that the runtime does not show
            self.placed.unknown.append(tensor)
            return
        ways = (
            ("name", list(self.names.get(tensor, ()))[-1:]),
            ("structure", list(self._by_structure(node))),
            ("value", list(self.learned.ranges)),
        )
        for way, candidates in ways:
            fitting = [value for value in candidates if _same(prints, self.truth[value])]
            if fitting:
                self._require_one(tensor, fitting)
                self._put(tensor, fitting[0], way)
                return
        self.placed.unknown.append(tensor)

    def _by_structure(self, node: Node) -> Iterator[str]:
        if any(tensor not in self.known for tensor in node.reads):
            return
        reads = tuple(sorted(self.known[tensor] for tensor in node.reads))
        for operator in self.kinds.operators.get(node.kind, ()):
            for value in self.by_reads.get((operator, reads), ()):
                yield value
                if value in self.learned.inside:
                    yield self.learned.inside[value]

    def _require_one(self, tensor: str, fitting: Sequence[str]) -> None:
        ranges = {self.learned.ranges[value] for value in fitting}
        if len(ranges) > 1:
            raise StageError(
                f"the learned ranges cannot be placed: tensor {tensor} holds the same values as {fitting[0]} and "
                f"{fitting[1]}, whose ranges differ",
                "give real inputs with --samples, on which the two differ",
            )


def _fingerprints(cases: Sequence[Mapping[str, Array]], name: str) -> list[Array]:
    """The values of one tensor in every case, sorted, so that no layout matters; empty if it is not in all."""
    found = [case[name] for case in cases if name in case]
    return [np.sort(value, axis=None) for value in found] if len(found) == len(cases) else []


def _same(ours: Sequence[Array], theirs: Sequence[Array]) -> bool:
    return bool(theirs) and all(
        one.size == other.size
        and np.abs(one - other).max(initial=0) <= _CLOSE * max(np.abs(other).max(initial=0), 1e-6)
        for one, other in zip(ours, theirs, strict=True)
    )

"""Which nodes compute in integers, and which values need a scale for that. Nothing is changed here.

Two schemes: onnxruntime's CPU kernels take integers in and out, so that every value between two of them has one scale;
TensorRT quantizes the inputs of convolutions and matrix products and fuses the rest itself.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convert.targets.onnx_quant_graph import Graph, attribute

_WEIGHTED = frozenset({"Conv", "Gemm", "MatMul"})
_ELEMENTWISE = frozenset({"Add", "Mul"})
_KERNELS = _WEIGHTED | _ELEMENTWISE | {"AveragePool", "GlobalAveragePool", "Sigmoid", "LeakyRelu", "Concat"}
#: They move values and change none, so that what comes out has the scale of what went in.
_MOVERS = frozenset(
    {
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
        "Slice",
        "Split",
        "MaxPool",
        "DepthToSpace",
        "SpaceToDepth",
        "Expand",
        "Tile",
    }
)
_LEVELS = 255
#: An activation right after one of these is part of it: the value in between is never rounded.
_ACTIVATIONS = frozenset({"Relu", "Clip"})


@dataclass(frozen=True)
class Scheme:
    """How a runtime wants its integers.

    Attributes:
        name: as it stands in notes.
        operators: kinds of nodes that compute in integers.
        movers: kinds of nodes that pass integers on.
        symmetric: the zero point of activations is 0.
        unsigned: activations are uint8; on x86-64 onnxruntime turns int8 into uint8 itself, and where a value has
            several readers it fails to, after which the operators around it compute in float.
        outputs: what an operator gives is in integers too, and so is its bias (int32).
        largest_weight: largest absolute integer of a weight.
        islands: what multiplies no weights computes in integers even where its operands come as floats. Off, since
            rounding them costs accuracy and gains no time: the residual stream of a transformer, the parts of a GELU.
    """

    name: str
    operators: frozenset[str] = _KERNELS
    movers: frozenset[str] = _MOVERS
    symmetric: bool = False
    unsigned: bool = True
    outputs: bool = True
    largest_weight: int = 127
    islands: bool = False


CPU = Scheme("onnxruntime")
#: Kernels for CPUs without VNNI add two products in 16 bits; with weights of 7 bits that cannot overflow.
CPU_7BIT = Scheme("onnxruntime, weights of 7 bits", largest_weight=64)
TENSORRT = Scheme("TensorRT", operators=_WEIGHTED, movers=frozenset(), symmetric=True, unsigned=False, outputs=False)


@dataclass
class Plan:
    """What is to be written.

    Attributes:
        nodes: names of the nodes that compute in or pass on integers.
        reads: value -> positions where those nodes read it, as (node name, position).
        written: values that such a node gives as integers.
        root: value -> the value whose range it has.
    """

    nodes: dict[str, Any] = field(default_factory=dict)
    reads: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    root: dict[str, str] = field(default_factory=dict)

    @property
    def values(self) -> set[str]:
        """The values that need a range."""
        return {self.root.get(name, name) for name in (*self.reads, *self.written)}


class Everything(Container[str]):
    """Contains every value except ``but``: for a plan that says which ranges are worth measuring."""

    def __init__(self, but: Container[str] = ()) -> None:
        """See the class."""
        self._but = but

    def __contains__(self, name: object) -> bool:
        """Whether ``name`` is none of the exceptions."""
        return name not in self._but


def floats_out(graph: Graph) -> set[str]:
    """Outputs of the graph that stay float because a matrix product gives them: rounding them gains nothing.

    One with a bias added apart is not among them: onnxruntime joins the two only where integers come out.
    """
    found = {node.output[0] for node in graph.graph.node if node.op_type in ("Gemm", "MatMul")}
    return found & set(graph.outputs)


def make_plan(graph: Graph, scheme: Scheme, known: Container[str], keep: Container[str] = ()) -> Plan:
    """Decide on every node.

    Args:
        graph: a float32 graph.
        scheme: what the runtime can do.
        known: value -> range, or merely the values that will have one; a node that lacks one stays in float.
        keep: names of nodes that stay in float.
    """
    plan = Plan()
    wanted = _wanted(graph, scheme)
    for node in graph.graph.node:
        if node.name in keep:
            continue
        if node.op_type in scheme.operators and not _is_bias(graph, node):
            _take(graph, scheme, plan, node, known)
        elif (
            node.op_type in scheme.movers
            and len(node.output) == _results(node)
            and _moves(graph, plan, node, wanted, known)
        ):
            source = node.input[0]
            plan.nodes[node.name] = node
            plan.reads.setdefault(source, []).append((node.name, 0))
            for name in node.output:
                plan.root[name] = plan.root.get(source, source)
                plan.written.add(name)
    return plan


def _take(graph: Graph, scheme: Scheme, plan: Plan, node: Any, known: Container[str]) -> None:
    positions = _form(graph, node)
    if positions is None:
        return
    read = [position for position in positions if not graph.float_constant(node.input[position])]
    roots = {node.input[position]: _root(graph, scheme, plan, node.input[position], known) for position in read}
    if any(root not in known for root in roots.values()) or _drowns(graph, node, positions, roots, known):
        return
    if not (node.op_type in _WEIGHTED or scheme.islands or all(_arrives(graph, plan, name) for name in roots)):
        return
    written = _result(graph, node, known) if scheme.outputs else ""
    if written is None:
        return
    plan.nodes[node.name] = node
    plan.root |= roots
    for position in positions:
        plan.reads.setdefault(node.input[position], []).append((node.name, position))
    if written:
        plan.written.add(written)


def _arrives(graph: Graph, plan: Plan, name: str) -> bool:
    """Whether ``name`` comes in integers: from a node that gives them, or from outside, where it is rounded anyway."""
    return name in plan.written or name in graph.inputs


def _drowns(graph: Graph, node: Any, positions: list[int], roots: Mapping[str, str], known: Container[str]) -> bool:
    """Whether integers lose an operand of ``node``: a constant that is not finite, or one below a step of the sum.

    Masks of attention are of both kinds: minus infinity, or -10000 added to scores of a few units.
    """
    names = [node.input[position] for position in positions]
    constants = {name: graph.array(name) for name in names if name not in roots}
    if not all(np.isfinite(value).all() for value in constants.values()):
        return True
    if node.op_type != "Add" or not isinstance(known, Mapping):
        return False
    spans = [float(np.ptp(np.append(value, 0.0))) for value in constants.values()]
    spans += [known[root][1] - known[root][0] for root in roots.values()]
    return 0 < min(spans) < max(spans) / _LEVELS


def _root(graph: Graph, scheme: Scheme, plan: Plan, name: str, known: Container[str]) -> str:
    """The value that tells the range of ``name``: it may have been moved, in float where what gave it stays float."""
    root = plan.root.get(name, name)
    while root not in known and root in graph.producer and graph.producer[root].op_type in scheme.movers:
        root = graph.producer[root].input[0]
    return root


def _result(graph: Graph, node: Any, known: Container[str]) -> str | None:
    """The value that leaves ``node`` as integers, after its bias and activation; empty for floats, None if neither can.

    onnxruntime's matrix products can give floats, its other kernels cannot.
    """
    last = node
    if node.op_type == "MatMul":
        last = bias_addition(graph, node) or node
    follower = graph.only_reader(last.output[0])
    activated = follower is not None and follower.op_type in _ACTIVATIONS and follower.input[0] == last.output[0]
    if activated and follower.output[0] in known:
        return str(follower.output[0])
    if last.output[0] in known:
        return str(last.output[0])
    return "" if node.op_type in ("Gemm", "MatMul") else None


def bias_addition(graph: Graph, node: Any) -> Any:
    """The node that adds a constant row to what the matrix product ``node`` gives; None without one."""
    follower = graph.only_reader(node.output[0])
    if follower is None or follower.op_type != "Add":
        return None
    other = next((name for name in follower.input if name != node.output[0]), "")
    return follower if graph.float_constant(other) and graph.array(other).ndim == 1 else None


def _is_bias(graph: Graph, node: Any) -> bool:
    products = [graph.producer[name] for name in node.input if name in graph.producer] if node.op_type == "Add" else []
    return any(product.op_type == "MatMul" and bias_addition(graph, product) is node for product in products)


def _results(node: Any) -> int:
    """How many outputs of a mover are moved values: the indices of a pooling are none."""
    return len(node.output) if node.op_type == "Split" else 1


def _wanted(graph: Graph, scheme: Scheme) -> set[str]:
    """Values that end in a node of the scheme, directly or through nodes that only move them."""
    wanted: set[str] = set()
    for node in reversed(graph.graph.node):
        if node.op_type in scheme.operators and (positions := _form(graph, node)):
            wanted |= {node.input[position] for position in positions}
        elif node.op_type in scheme.movers and wanted & set(node.output):
            wanted.add(node.input[0])
    return wanted


def _moves(graph: Graph, plan: Plan, node: Any, wanted: set[str], known: Container[str]) -> bool:
    """Whether a node that moves values moves integers: they come as such, or the graph's input becomes such."""
    source = node.input[0]
    if source in plan.written:
        return True
    return source in graph.inputs and source in known and bool(wanted & set(node.output))


def _form(graph: Graph, node: Any) -> list[int] | None:
    """Positions of the values that ``node`` computes with, its bias left out; None for a form without a kernel."""
    return _FORMS.get(node.op_type, _one)(graph, node)


def _one(graph: Graph, node: Any) -> list[int] | None:
    return None if graph.float_constant(node.input[0]) else [0]


def _conv(graph: Graph, node: Any) -> list[int] | None:
    biased = len(node.input) > 2 and node.input[2]
    if biased and not graph.float_constant(node.input[2]):
        return None
    return [0, 1] if graph.float_constant(node.input[1]) and not graph.float_constant(node.input[0]) else None


def _gemm(graph: Graph, node: Any) -> list[int] | None:
    plain = attribute(node, "transA", 0) == 0 and attribute(node, "alpha", 1.0) == 1.0
    biased = len(node.input) > 2 and node.input[2]
    if biased:
        row = graph.float_constant(node.input[2]) and graph.array(node.input[2]).ndim == 1
        plain = plain and row and attribute(node, "beta", 1.0) == 1.0
    if not plain or not graph.float_constant(node.input[1]) or graph.float_constant(node.input[0]):
        return None
    return [0, 1] if not biased or graph.array(node.input[2]).size == _columns(graph, node) else None


def _columns(graph: Graph, node: Any) -> int:
    shape = graph.constants[node.input[1]].dims
    return int(shape[0] if attribute(node, "transB", 0) else shape[1])


def _two(graph: Graph, node: Any) -> list[int] | None:
    return None if all(graph.float_constant(name) for name in node.input) else [0, 1]


def _all(graph: Graph, node: Any) -> list[int] | None:
    return None if all(graph.float_constant(name) for name in node.input) else list(range(len(node.input)))


_FORMS: dict[str, Callable[[Graph, Any], list[int] | None]] = {
    "Conv": _conv,
    "Gemm": _gemm,
    "MatMul": _two,
    "Add": _two,
    "Mul": _two,
    "Concat": _all,
}

"""Compute once what in a float TFLite file depends on nothing but the sizes of the inputs.

Converters work out dynamic sizes with operators that have no integer form (SHAPE, FILL …). At fixed sizes they are
constants, and whatever guarded against other sizes falls away. Where the same is left at two sizes, it is right for
any, and the sizes stay dynamic; else they are fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from convert.records import Artifact
from convert.targets.tflite_measure import Watched
from convert.targets.tflite_named import Graph, Operator, Tensor, read, write

Array = np.ndarray[Any, Any]
#: Depend on nothing but the sizes of what they are given.
_OF_SIZES = frozenset({"SHAPE", "RANK", "ZEROS_LIKE"})
#: Give the same for the same, and nothing else happens.
_PURE = _OF_SIZES | {
    *("ABS", "ADD", "BROADCAST_ARGS", "BROADCAST_TO", "CAST", "CEIL", "CONCATENATION", "DIV", "EQUAL", "EXPAND_DIMS"),
    *("FILL", "FLOOR", "FLOOR_DIV", "FLOOR_MOD", "GATHER", "GATHER_ND", "GREATER", "GREATER_EQUAL", "LESS"),
    *(
        "LESS_EQUAL",
        "LOGICAL_AND",
        "LOGICAL_NOT",
        "LOGICAL_OR",
        "MAXIMUM",
        "MINIMUM",
        "MUL",
        "NEG",
        "NOT_EQUAL",
        "PACK",
    ),
    *("PAD", "PADV2", "RANGE", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "RESHAPE", "SELECT", "SELECT_V2", "SLICE"),
    *("SPLIT", "SQUEEZE", "STRIDED_SLICE", "SUB", "SUM", "TILE", "TRANSPOSE", "UNPACK"),
}


def freeze(source: Path, base: Artifact, feeds: Mapping[str, Array]) -> bytes:
    """The content of a file with every size fixed at that of ``feeds``.

    Args:
        source: a float file.
        base: its record.
        feeds: of the source, at the wanted sizes.
    """
    return write(_frozen(source, base, feeds))


def simplify(source: Path, base: Artifact, feeds: Mapping[str, Array], others: Mapping[str, Array]) -> bytes | None:
    """The content of a file without the operators that only work out sizes; its sizes are as dynamic as before.

    Args:
        source: a float file.
        base: its record.
        feeds: of the source.
        others: the same with every dynamic size another.

    Returns:
        None where something else is left at the one sizes than at the others, so that it cannot be right for all.
    """
    graph, other = _frozen(source, base, feeds), _frozen(source, base, others)
    if _what_is_left(graph) != _what_is_left(other):
        return None
    for tensor, before in zip(graph.model.subgraphs[0].tensors, read(source).model.subgraphs[0].tensors, strict=True):
        tensor.shape, tensor.shapeSignature = before.shape, before.shapeSignature
    return write(graph)


def _what_is_left(graph: Graph) -> list[Any]:
    """Operators with their places and constants."""
    return [
        (op.kind, [(t.index, graph.values(0, t).tobytes() if t.constant else b"") for t in op.inputs], op.outputs)
        for op in _main(graph)
    ]


def _frozen(source: Path, base: Artifact, feeds: Mapping[str, Array]) -> Graph:
    watched = Watched(source, base.io)
    watched.run(feeds)
    graph = read(source)
    _fix_sizes(graph, watched)
    _fold(graph, watched)
    _skip_what_changes_nothing(graph)
    _drop_unused(graph)
    return graph


def _fix_sizes(graph: Graph, watched: Watched) -> None:
    tensors = graph.model.subgraphs[0].tensors
    for detail in watched.details():
        # The runtime has tensors of its own behind the file's.
        if detail["index"] < len(tensors):
            tensors[detail["index"]].shape = [int(size) for size in detail["shape"]]
            tensors[detail["index"]].shapeSignature = None


def _fold(graph: Graph, watched: Watched) -> None:
    """Put the values of all that does not depend on the inputs into the file."""
    from ai_edge_litert.schema_py_generated import BufferT

    subgraph = graph.model.subgraphs[0]
    known = {tensor.index for op in _main(graph) for tensor in op.inputs if tensor.constant}
    for operator in _main(graph):
        settled = operator.kind in _OF_SIZES or all(tensor.index in known for tensor in operator.inputs)
        if operator.kind not in _PURE or not settled:
            continue
        values = {
            tensor.index: value for tensor in operator.outputs if (value := watched.value(tensor.index)) is not None
        }
        if len(values) < len(operator.outputs):
            continue
        known |= values.keys()
        for index, value in values.items():
            buffer = BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
            graph.model.buffers.append(buffer)
            subgraph.tensors[index].buffer = len(graph.model.buffers) - 1
            subgraph.tensors[index].shape = list(np.shape(value))


def _main(graph: Graph) -> list[Operator]:
    return [operator for operator in graph.operators() if operator.subgraph == 0]


def _skip_what_changes_nothing(graph: Graph) -> None:
    """Let what follows an operator that hands on its input take that input."""
    raw = graph.model.subgraphs[0].operators
    origin: dict[int, int] = {}
    made_by: dict[int, Operator] = {}
    for operator, entry in zip(_main(graph), raw, strict=True):
        entry.inputs = [origin.get(int(index), int(index)) for index in entry.inputs]
        made_by |= {tensor.index: operator for tensor in operator.outputs}
        same = _handed_on(graph, operator, entry, made_by)
        if same is not None and operator.outputs[0].index not in graph.outputs():
            origin[operator.outputs[0].index] = origin.get(same, same)


def _handed_on(graph: Graph, operator: Operator, raw: Any, made_by: Mapping[int, Operator]) -> int | None:
    """The place of the tensor that the operator hands on unchanged; None where it changes anything."""
    if operator.kind == "ADD" and not raw.builtinOptions.fusedActivationFunction:
        return _added_to_zeros(graph, operator)
    if operator.kind == "SLICE" and operator.inputs[1].constant and not graph.values(0, operator.inputs[1]).any():
        return _whole(graph, operator, made_by.get(operator.inputs[0].index))
    return None


def _added_to_zeros(graph: Graph, operator: Operator) -> int | None:
    shape = _shape(graph, operator.outputs[0])
    for value, zeros in (operator.inputs, operator.inputs[::-1]):
        if zeros.constant and _shape(graph, value) == shape and not graph.values(0, zeros).any():
            return value.index
    return None


def _whole(graph: Graph, operator: Operator, before: Operator | None) -> int | None:
    """A slice from the beginning that has the size of all, or of the first of what was put in a row just before."""
    shape = _shape(graph, operator.outputs[0])
    first = before.inputs[0] if before is not None and before.kind == "CONCATENATION" else operator.inputs[0]
    return next((t.index for t in (operator.inputs[0], first) if _shape(graph, t) == shape), None)


def _shape(graph: Graph, tensor: Tensor) -> list[int]:
    return [int(size) for size in graph.model.subgraphs[0].tensors[tensor.index].shape]


def _drop_unused(graph: Graph) -> None:
    """Remove the operators whose results are constants or wanted by nobody."""
    subgraph = graph.model.subgraphs[0]
    wanted, kept = set(graph.outputs()), []
    for operator, raw in reversed(list(zip(_main(graph), subgraph.operators, strict=True))):
        results = [tensor for tensor in operator.outputs if tensor.index in wanted and not tensor.constant]
        if results or operator.kind not in _PURE:
            kept.append(raw)
            wanted |= {int(index) for index in raw.inputs}
    subgraph.operators = kept[::-1]
    for index in range(len(subgraph.tensors)):
        if index not in wanted | graph.inputs():
            subgraph.tensors[index].buffer = 0
    used = {tensor.buffer for part in graph.model.subgraphs for tensor in part.tensors}
    used |= {entry.buffer for entry in graph.model.metadata or ()}
    for place, buffer in enumerate(graph.model.buffers):
        if place not in used:
            buffer.data = None

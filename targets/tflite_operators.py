"""Read back from a TFLite file which operators compute in integers; what a toolkit was asked for proves nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from convert.errors import StageError
from convert.records import Operators
from convert.targets.tflite_named import Graph, Operator, read

_NAMED = 5


def read_operators(source: Path | bytes) -> Operators:
    """Count the operators of a file.

    An operator that takes or gives one floating tensor counts as floating. What turns the inputs of the file into
    integers and its outputs into floats is left out; the same in the middle marks an island of float and counts.
    Floating operators with integer weights (``int8-dynamic``) are counted as ``CONV_2D (int8 weights)``.
    """
    integer: Counter[str] = Counter()
    floating: Counter[str] = Counter()
    graph = read(source)
    for operator in graph.operators():
        if not _boundary(graph, operator):
            (floating if _floating(operator) else integer)[_label(operator)] += 1
    return Operators(dict(sorted(integer.items())), dict(sorted(floating.items())))


def require_full_integer(source: Path | bytes) -> None:
    """Refuse a file in which anything computes in float.

    Raises:
        StageError: there is such an operator; the first ones are named.
    """
    graph = read(source)
    found = [operator for operator in graph.operators() if _floating(operator) and not _boundary(graph, operator)]
    if found:
        named = ", ".join(f"{operator.kind} {operator.name}" for operator in found[:_NAMED])
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise StageError(
            f"{len(found)} operators compute in float ({named}{more}), and a fully integer file is required",
            "replace these operators in the model, fix its sizes, or leave out --require-full-integer",
        )


def _floating(operator: Operator) -> bool:
    return any(tensor.floating for tensor in (*operator.inputs, *operator.outputs))


def _label(operator: Operator) -> str:
    weights = [t for t in operator.inputs if t.constant and t.type in ("INT4", "INT8")]
    return f"{operator.kind} (int8 weights)" if weights and _floating(operator) else operator.kind


def _boundary(graph: Graph, operator: Operator) -> bool:
    if operator.subgraph != 0:
        return False
    if operator.kind == "QUANTIZE":
        return all(tensor.index in graph.inputs() for tensor in operator.inputs)
    return operator.kind == "DEQUANTIZE" and all(tensor.index in graph.outputs() for tensor in operator.outputs)

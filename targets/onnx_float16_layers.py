"""Which layers of a graph cannot compute in float16, found by running the float32 graph.

A float16 ends at 65504 and has no number between 0 and 6e-8. A layer stays in float32 where a value that it gives or
takes goes beyond, where the sum inside a reduction may (though its result does not), or where a constant that it reads,
such as an epsilon, would become another number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from convert.golden_io import load_case
from convert.targets.base import BuildRequest

LARGEST = 65504.0
#: A constant is another number where rounding moves it by more than this share; float16 itself rounds by 0.0005.
_ROUNDING = 2.0**-8
_MOST_CASES = 12
_MOST_BATCHES = 4
#: Operators that add up many values; an accumulator in float16 overflows before the result is divided or rooted.
_SUMS = frozenset(
    {"ReduceMean", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "GlobalAveragePool", "AveragePool"}
)
_SQUARES = frozenset({"ReduceL2", "ReduceSumSquare"})
Kept = dict[str, str]


def layers_to_keep(model: Any, request: BuildRequest) -> Kept:
    """Nodes that stay in float32, by name in the order of the graph, each with the reason.

    Args:
        model: the float32 graph; every node has a name.
        request: has the cases and, perhaps, calibration data, whose values decide.
    """
    largest, sums = _observed(model, request)
    constants = {tensor.name: _array_of(tensor) for tensor in model.graph.initializer}
    constants |= {
        node.output[0]: _array_of(node.attribute[0].t)
        for node in model.graph.node
        if node.op_type == "Constant" and node.attribute[0].name == "value"
    }
    largest |= {name: _largest(values) for name, values in constants.items()}
    kept: Kept = {}
    for node in model.graph.node:
        if node.op_type == "Constant":
            continue
        reason = _reason(node, largest, sums, constants)
        if reason:
            kept[node.name] = reason
    return kept


def _reason(node: Any, largest: Mapping[str, float], sums: Mapping[str, float], constants: Mapping[str, Any]) -> str:
    for name in (*node.output, *node.input):
        if largest.get(name, 0.0) > LARGEST:
            return f"{name} reaches {largest[name]:.3g}"
    if sums.get(node.name, 0.0) > LARGEST:
        return f"its sum may reach {sums[node.name]:.3g} before it is divided or rooted"
    for name in node.input:
        values = constants.get(name)
        if values is not None and values.size == 1 and _changes(float(values.reshape(-1)[0])):
            return f"the constant {float(values.reshape(-1)[0]):.3g} would become another number"
    return ""


def _changes(value: float) -> bool:
    if value == 0 or not np.isfinite(value) or abs(value) > LARGEST:
        return False
    return abs(float(np.float16(value)) - value) > _ROUNDING * abs(value)


def _array_of(tensor: Any) -> Any:
    from onnx import TensorProto, numpy_helper

    floats = (TensorProto.FLOAT, TensorProto.DOUBLE)
    return numpy_helper.to_array(tensor) if tensor.data_type in floats else np.zeros(0)


def _largest(values: Any) -> float:
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else np.zeros(0)
    return float(np.abs(finite).max()) if finite.size else 0.0


def _observed(model: Any, request: BuildRequest) -> tuple[dict[str, float], dict[str, float]]:
    """The largest value of every tensor between nodes, and the largest sum inside every reduction, over the data."""
    session, names = _session(model)
    reductions = [node for node in model.graph.node if node.op_type in _SUMS]
    largest: dict[str, float] = {}
    sums: dict[str, float] = {}
    for feeds in _feeds(request):
        values = dict(zip(names, session.run(names, feeds), strict=True)) | feeds
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                largest[name] = max(largest.get(name, 0.0), _largest(value))
        for node in reductions:
            found = _inner_sum(node, values)
            sums[node.name] = max(sums.get(node.name, 0.0), found)
    return largest, sums


def _inner_sum(node: Any, values: Mapping[str, Any]) -> float:
    """The largest sum of absolute values that goes into one element of the result."""
    value, result = values.get(node.input[0]), values.get(node.output[0])
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not isinstance(result, np.ndarray):
        return 0.0
    count = max(1, value.size // max(1, result.size))
    if node.op_type in _SQUARES:
        return float(_largest(value) ** 2 * count) if node.op_type == "ReduceSumSquare" else _largest(result) ** 2
    mean = _largest(result) * count if node.op_type != "ReduceSum" else 0.0
    # Where signs cancel, the sum on the way is larger than at the end.
    return max(mean, _mean_magnitude(value) * count)


def _mean_magnitude(value: Any) -> float:
    finite = value[np.isfinite(value)]
    return float(np.abs(finite).mean(dtype=np.float64)) if finite.size else 0.0


def _session(model: Any) -> tuple[Any, list[str]]:
    """The graph with every value between nodes as an output."""
    import onnx
    import onnxruntime as ort

    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    known = {value.name for value in probe.graph.output}
    names = [name for node in probe.graph.node for name in node.output if name and name not in known]
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in [*known, *names])
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(probe.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session, [value.name for value in session.get_outputs()]


def _feeds(request: BuildRequest) -> Iterator[dict[str, Any]]:
    """The user's own data first, then draws at every shape; edge values would keep layers for nothing."""
    ranked = sorted(request.golden.cases, key=lambda case: (case.origin != "sample", not case.name.startswith("opt")))
    for case in [case for case in ranked if case.origin != "edge"][:_MOST_CASES]:
        yield dict(load_case(request.golden_folder, case).feeds)
    if request.calibration is not None:
        yield from (dict(feeds) for feeds in islice(request.calibration, _MOST_BATCHES))

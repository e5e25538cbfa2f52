"""Which layers of a graph cannot compute in float16, found by running the float32 graph.

A float16 ends at 65504, has fewer digits below 6.1e-5 and no number between 0 and 6e-8. A layer stays in float32 where
a value that it gives or takes goes beyond, where all of a value lies below, where something is divided by a value that
does, where a sum inside it may go beyond though its result does not, or where a constant that it reads, such as an
epsilon, would become another number. The nodes of branches and loops are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from convert.golden_io import load_case
from convert.targets.base import BuildRequest
from convert.targets.onnx_float16_sums import attribute, largest_sum
from convert.targets.onnx_stepwise import in_order, reads

LARGEST = 65504.0
#: The smallest float16 with all of its digits.
SMALLEST = 2.0**-14
#: A constant is another number where rounding moves it by more than this share; float16 itself rounds by 0.0005.
_ROUNDING = 2.0**-8
_MOST_CASES = 12
_MOST_BATCHES = 4
#: Of a constant that is looked at as a number.
_MOST_ELEMENTS = 65536
#: Inputs whose small values are as good as large ones, by operator.
_DIVISORS = {"Div": 1, "Reciprocal": 0, "Log": 0, "Sqrt": 0, "ReduceLogSum": 0}
#: These add the attribute to what they divide by.
_EPSILONS = frozenset({"InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization"})
_RANDOM = frozenset({"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial"})
Kept = dict[str, str]


@dataclass
class Observed:
    """What the data showed of every value, by name, and of every sum, by node; and numbers that never change."""

    largest: dict[str, float] = field(default_factory=dict)
    smallest: dict[str, float] = field(default_factory=dict)
    sums: dict[str, float] = field(default_factory=dict)
    constants: dict[str, float] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()


def layers_to_keep(model: Any, request: BuildRequest) -> Kept:
    """Nodes that stay in float32, by name in the order of the graph, each with the reason.

    Args:
        model: the float32 graph; every node has a name.
        request: has the cases and, perhaps, calibration data, whose values decide.
    """
    seen = _observed(model, request)
    divisors = {
        node.input[_DIVISORS[node.op_type]] for node in model.graph.node if node.op_type in _DIVISORS
    } - seen.fixed
    kept: Kept = {}
    for node in model.graph.node:
        reason = "" if node.op_type == "Constant" else _reason(node, seen, divisors)
        if reason:
            kept[node.name] = reason
    return kept


def _reason(node: Any, seen: Observed, divisors: set[str]) -> str:
    names = [name for name in (*node.output, *reads(node)) if name]
    for name in names:
        if seen.largest.get(name, 0.0) > LARGEST:
            return f"{name} reaches {seen.largest[name]:.3g}"
    if seen.sums.get(node.name, 0.0) > LARGEST:
        return f"its sum may reach {seen.sums[node.name]:.3g} before it is divided or rooted"
    for name in node.input:
        if name in seen.constants and _changes(seen.constants[name]):
            return f"the constant {seen.constants[name]:.3g} would become another number"
    epsilon = attribute(node, "epsilon", 1e-5)
    if node.op_type in _EPSILONS and _changes(epsilon):
        return f"its epsilon {epsilon:.3g} would become another number"
    for name in names:
        if name not in seen.fixed and 0 < seen.largest.get(name, 0.0) < SMALLEST:
            return f"{name} only reaches {seen.largest[name]:.3g}, where float16 has few digits"
        if name in divisors and seen.smallest.get(name, 1.0) < SMALLEST:
            return f"{name}, which something is divided by, comes down to {seen.smallest[name]:.3g}"
    return ""


def _changes(value: float) -> bool:
    if value == 0 or not np.isfinite(value) or abs(value) > LARGEST:
        return False
    return abs(float(np.float16(value)) - value) > _ROUNDING * abs(value)


def _magnitudes(values: Any) -> Any:
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else np.zeros(0)
    return np.abs(finite[finite != 0])


def _observed(model: Any, request: BuildRequest) -> Observed:
    """Run the graph over the data with every value between nodes as an output."""
    session, names = _session(model)
    seen, constants = Observed(), _constants(model)
    fixed = {name for node in _fixed(model, set(constants)) for name in node.output} | set(constants)
    seen.fixed = frozenset(fixed)
    for feeds in _feeds(request):
        values = constants | dict(zip(names, session.run(names, feeds), strict=True)) | feeds
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                _look(seen, name, value)
        for node in model.graph.node:
            seen.sums[node.name] = max(seen.sums.get(node.name, 0.0), largest_sum(node, values))
    return seen


def _look(seen: Observed, name: str, value: Any) -> None:
    sizes = _magnitudes(value)
    if sizes.size:
        seen.largest[name] = max(seen.largest.get(name, 0.0), float(sizes.max()))
        seen.smallest[name] = min(seen.smallest.get(name, np.inf), float(sizes.min()))
    if name in seen.fixed and value.dtype.kind == "f" and 0 < value.size <= _MOST_ELEMENTS and np.ptp(value) == 0:
        seen.constants[name] = float(value.reshape(-1)[0])


def _constants(model: Any) -> dict[str, Any]:
    from onnx import numpy_helper

    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def _fixed(model: Any, known: set[str]) -> Iterator[Any]:
    """Nodes whose results never change, such as an epsilon that was copied or spread."""
    inputs = {value.name for value in model.graph.input}
    for node in in_order(model.graph.node, known | inputs):
        if all(name in known for name in reads(node)) and node.op_type not in _RANDOM:
            known.update(node.output)
            yield node


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

"""float16 weights and arithmetic in an ONNX graph, with float32 kept where float16 would overflow.

A float16 ends at 65504. What goes beyond in the float32 graph, on the cases of the golden run, stays in float32
together with what reads it, and is named.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from convert.golden_io import load_case
from convert.targets.base import BuildRequest
from convert.targets.onnx_files import save_graph

LARGEST = 65504.0
_MOST_NAMED = 5
_MOST_CASES = 3


def to_float16(request: BuildRequest, source: Path, to: Path) -> tuple[str, ...]:
    """Write the float16 form of ``source`` to ``to``; returns notes that name the layers left in float32."""
    import onnx
    from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST, convert_float_to_float16

    model = onnx.load(str(source))
    _name_nodes(model)
    kept = _overflowing_nodes(model, request)
    # The interface stays float32: callers keep their arrays, and the casts stand inside the file.
    half = convert_float_to_float16(
        model,
        keep_io_types=True,
        node_block_list=kept,
        op_block_list=DEFAULT_OP_BLOCK_LIST,
        disable_shape_infer=False,
    )
    _join_islands(half.graph)
    save_graph(half, to)
    if not kept:
        return ()
    named = ", ".join(kept[:_MOST_NAMED]) + (f" and {len(kept) - _MOST_NAMED} more" if len(kept) > _MOST_NAMED else "")
    return (f"kept in float32, since float16 would overflow there: {named}",)


def _name_nodes(model: Any) -> None:
    for index, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{index}"


def _join_islands(graph: Any) -> None:
    """Take out casts to float16 and straight back, in which a value between two float32 nodes would overflow."""
    from onnx import TensorProto

    casts = {node.output[0]: node for node in graph.node if node.op_type == "Cast"}
    to = {name: node.attribute[0].i for name, node in casts.items()}
    direct: dict[str, str] = {}
    for name, node in casts.items():
        before = casts.get(node.input[0])
        if before is not None and to[name] == TensorProto.FLOAT and to[before.output[0]] == TensorProto.FLOAT16:
            direct[name] = before.input[0]
    for node in graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = direct.get(name, name)
    while unused := _unused_casts(graph):
        for node in unused:
            graph.node.remove(node)


def _unused_casts(graph: Any) -> list[Any]:
    used = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    return [node for node in graph.node if node.op_type == "Cast" and node.output[0] not in used]


def _overflowing_nodes(model: Any, request: BuildRequest) -> list[str]:
    """Names of the nodes that give or take a value beyond float16, in the order of the graph."""
    large = _large_values(model, request) | {
        tensor.name for tensor in model.graph.initializer if _largest(_array_of(tensor)) > LARGEST
    }
    return [node.name for node in model.graph.node if large & {*node.input, *node.output}]


def _array_of(tensor: Any) -> Any:
    from onnx import TensorProto, numpy_helper

    floats = (TensorProto.FLOAT, TensorProto.DOUBLE)
    return numpy_helper.to_array(tensor) if tensor.data_type in floats else np.zeros(0)


def _largest(values: Any) -> float:
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else np.zeros(0)
    return float(np.abs(finite).max()) if finite.size else 0.0


def _large_values(model: Any, request: BuildRequest) -> set[str]:
    """Names of the values between nodes that go beyond float16 in one of the cases."""
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
    large: set[str] = set()
    for case in _cases(request):
        results = session.run(None, dict(load_case(request.golden_folder, case).feeds))
        outputs = [value.name for value in session.get_outputs()]
        large |= {
            name
            for name, value in zip(outputs, results, strict=True)
            if isinstance(value, np.ndarray) and _largest(value) > LARGEST
        }
    return large


def _cases(request: BuildRequest) -> list[Any]:
    """The user's own data first, then draws at the optimum; edge values would keep layers for nothing."""
    ranked = sorted(request.golden.cases, key=lambda case: (case.origin != "sample", not case.name.startswith("opt")))
    return [case for case in ranked if case.origin != "edge"][:_MOST_CASES]

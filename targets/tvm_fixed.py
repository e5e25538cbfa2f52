"""An ONNX graph at fixed sizes, without what works out sizes: TVM's front end does not take all of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
#: Give the same for the same, and are what exporters work out sizes and masks with.
_PURE = {
    *("Abs", "Add", "And", "Cast", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Floor"),
    *("Gather", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul"),
    *("Neg", "Not", "Or", "Range", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Slice"),
    *("Squeeze", "Sub", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where"),
}
#: Elements of a value that is worked out here. What is larger is no size, and TVM folds it itself.
_MOST_ELEMENTS = 4096


def at_sizes(model: Any, shapes: Mapping[str, Sequence[int]]) -> Any:
    """A copy of ``model`` whose inputs have ``shapes`` and in which sizes are constants."""
    import onnx

    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    del fixed.graph.value_info[:]  # of other sizes
    for entry in fixed.graph.input:
        for axis, size in zip(entry.type.tensor_type.shape.dim, shapes.get(entry.name, ()), strict=False):
            axis.dim_value = size
    for entry in fixed.graph.output:
        entry.type.tensor_type.ClearField("shape")
    while _fold(fixed, _known_shapes(onnx.shape_inference.infer_shapes(fixed).graph)):
        pass  # a size that became known may settle the shapes behind it
    return fixed


def _known_shapes(graph: Any) -> dict[str, list[int]]:
    entries = (*graph.input, *graph.value_info, *graph.output)
    tensors = {entry.name: entry.type.tensor_type for entry in entries if entry.type.tensor_type.HasField("shape")}
    shapes = {name: [axis.dim_value if axis.HasField("dim_value") else -1 for axis in tensor.shape.dim]
              for name, tensor in tensors.items()}  # fmt: skip
    return {name: shape for name, shape in shapes.items() if -1 not in shape}


def _fold(model: Any, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Put what depends on sizes alone into the graph; whether there was any."""
    from onnx import numpy_helper

    graph = model.graph
    results = {entry.name for entry in graph.output}
    known = {one.name: numpy_helper.to_array(one) for one in graph.initializer if np.prod(one.dims) <= _MOST_ELEMENTS}
    known |= {node.output[0]: _constant(node) for node in graph.node if node.op_type == "Constant"}
    kept = []
    for node in graph.node:
        value = None if results & set(node.output) else _value(node, known, shapes, model.opset_import)
        if value is None or value.size > _MOST_ELEMENTS:
            kept.append(node)
            continue
        known[node.output[0]] = value
        graph.initializer.append(numpy_helper.from_array(value, node.output[0]))
    changed = len(kept) < len(graph.node)
    del graph.node[:]
    graph.node.extend(kept)
    return changed


def _constant(node: Any) -> Array:
    return np.asarray(_run(node, {}, ()))


def _value(node: Any, known: Mapping[str, Array], shapes: Mapping[str, Sequence[int]], opsets: Any) -> Array | None:
    """What ``node`` gives; None where that depends on more than sizes."""
    if node.op_type == "Shape" and node.input[0] in shapes:
        bounds = {attribute.name: attribute.i for attribute in node.attribute}
        return np.asarray(shapes[node.input[0]][bounds.get("start", 0) : bounds.get("end")], np.int64)
    given = [name for name in node.input if name]
    if node.op_type not in _PURE or node.domain or not all(name in known for name in given):
        return None
    return np.asarray(_run(node, {name: known[name] for name in given}, opsets))


def _run(node: Any, feeds: Mapping[str, Array], opsets: Any) -> Any:
    """The result of one node, by ONNX's own reference."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feeds.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(node.output[0])]
    graph = helper.make_graph([node], "one", inputs, outputs)
    model = helper.make_model(graph, opset_imports=opsets or [helper.make_opsetid("", 18)])
    return ReferenceEvaluator(model).run(None, dict(feeds))[0]

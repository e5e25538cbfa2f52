"""A mean over all of space is a global average pooling, for which onnxruntime has an integer kernel."""

from __future__ import annotations

from typing import Any

from convert.targets.onnx_quant_graph import Graph, attribute


def pool_globally(graph: Graph) -> None:
    """Put ``GlobalAveragePool`` (and ``Flatten`` where the axes go) in place of such means; names of values stay."""
    nodes: list[Any] = []
    changed = False
    ranks = _ranks(graph)
    for node in graph.graph.node:
        made = _pooling(graph, node, ranks) if node.op_type == "ReduceMean" else None
        nodes += [node] if made is None else made
        changed = changed or made is not None
    if changed:
        graph.replace_nodes(nodes)


def _pooling(graph: Graph, node: Any, ranks: dict[str, int]) -> list[Any] | None:
    from onnx import helper

    rank = ranks.get(node.input[0])
    axes = attribute(node, "axes", None)
    if axes is None and len(node.input) > 1 and node.input[1] in graph.constants:
        axes = graph.array(node.input[1]).tolist()
    if rank not in (3, 4, 5) or axes is None or sorted(axis % rank for axis in axes) != list(range(2, rank)):
        return None
    if attribute(node, "keepdims", 1):
        return [helper.make_node("GlobalAveragePool", node.input[:1], node.output, node.name)]
    pooled = graph.fresh(f"{node.output[0]}_pooled")
    return [
        helper.make_node("GlobalAveragePool", node.input[:1], [pooled], node.name),
        helper.make_node("Flatten", [pooled], node.output, graph.fresh(f"{node.name}_flatten"), axis=1),
    ]


def _ranks(graph: Graph) -> dict[str, int]:
    """Number of axes of the values where inference can tell; the weights are left out, for they may be large."""
    import onnx

    light = onnx.ModelProto()
    light.CopyFrom(graph.model)
    kept = [tensor for tensor in light.graph.initializer if tensor.ByteSize() < 1024]
    for tensor in light.graph.initializer:
        if tensor.ByteSize() >= 1024:
            light.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    small = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in kept]
    del light.graph.initializer[:]
    light.graph.initializer.extend(small)
    inferred = onnx.shape_inference.infer_shapes(light).graph
    values = (*inferred.input, *inferred.value_info, *inferred.output)
    return {v.name: len(v.type.tensor_type.shape.dim) for v in values if v.type.tensor_type.HasField("shape")}

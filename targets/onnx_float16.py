"""float16 weights and arithmetic in an ONNX graph, with float32 kept where float16 cannot hold the numbers.

Which layers those are :mod:`convert.targets.onnx_float16_layers` finds; they are named.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convert.targets.base import BuildRequest
from convert.targets.onnx_files import save_graph
from convert.targets.onnx_float16_layers import layers_to_keep
from convert.targets.onnx_nodes import nodes_of_model
from convert.targets.onnx_stepwise import in_order

_MOST_NAMED = 5


@dataclass(frozen=True)
class Half:
    """What there is to say of a graph in float16.

    Attributes:
        layers: ``name``, ``operator`` and ``reason`` of every layer that stayed in float32.
    """

    notes: tuple[str, ...]
    layers: tuple[dict[str, str], ...]

    @property
    def settings(self) -> dict[str, Any]:
        """For the manifest of the artifact."""
        return {"float32_layers": list(self.layers)} if self.layers else {}


def to_float16(request: BuildRequest, source: Path, to: Path) -> Half:
    """Write the float16 form of ``source`` to ``to``."""
    import onnx
    from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST, convert_float_to_float16

    model = onnx.load(str(source))
    _name_nodes(model)
    _plain_constants(model)
    reasons = layers_to_keep(model, request)
    kept = list(reasons)
    operators = {node.name: str(node.op_type) for node in model.graph.node}
    # The interface stays float32: callers keep their arrays, and the casts stand inside the file.
    half = convert_float_to_float16(
        model,
        keep_io_types=True,
        node_block_list=kept,
        op_block_list=DEFAULT_OP_BLOCK_LIST,
        disable_shape_infer=False,
    )
    _join_islands(half.graph)
    _sort(half.graph)
    save_graph(half, to)
    layers = tuple({"name": n, "operator": operators[n], "reason": why} for n, why in reasons.items())
    return Half(_notes(layers), layers)


def _notes(layers: tuple[dict[str, str], ...]) -> tuple[str, ...]:
    if not layers:
        return ()
    named = "; ".join(f"{layer['name']} ({layer['reason']})" for layer in layers[:_MOST_NAMED])
    more = f"; and {len(layers) - _MOST_NAMED} more, all of them in the manifest" if len(layers) > _MOST_NAMED else ""
    return (f"{len(layers)} layers kept in float32, since float16 cannot hold their numbers: {named}{more}",)


def _name_nodes(model: Any) -> None:
    for index, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{index}"


def _plain_constants(model: Any) -> None:
    """Write numbers that stand in ``Constant`` nodes as tensors; the converter leaves the short forms in float32."""
    from onnx import helper, numpy_helper

    for node in nodes_of_model(model):
        short = node.attribute[0] if node.op_type == "Constant" and node.attribute else None
        if short is not None and short.name in ("value_float", "value_floats"):
            tensor = numpy_helper.from_array(np.asarray(helper.get_attribute_value(short), np.float32))
            node.attribute[0].CopyFrom(helper.make_attribute("value", tensor))


def _sort(graph: Any) -> None:
    """In the order of computation, as the format demands; the converter appends the casts of inputs."""
    known = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    nodes = [type(node).FromString(node.SerializeToString()) for node in in_order(graph.node, known)]
    del graph.node[:]
    graph.node.extend(nodes)


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

"""The layers of frozen TorchScript: no modules are left there, but the graph has operators with constant weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from convert.models.guesses import Layer

#: Operator -> the place of its weight, the axis of the weight that is the size of the input, and the layer it is like.
_OPERATORS = {
    "aten::conv1d": (1, 1, "Conv1d"),
    "aten::conv2d": (1, 1, "Conv2d"),
    "aten::conv3d": (1, 1, "Conv3d"),
    "aten::_convolution": (1, 1, ""),
    "aten::linear": (1, 1, "Linear"),
    "aten::addmm": (2, 0, "Linear"),
    "aten::matmul": (1, 0, "Linear"),
    "aten::embedding": (0, 0, "Embedding"),
    "aten::layer_norm": (2, 0, "LayerNorm"),
}
_CONVOLUTIONS = {3: "Conv1d", 4: "Conv2d", 5: "Conv3d"}


def frozen_layers(graph: Any) -> Iterator[Layer]:
    """Layers with an input size, in the order in which the graph runs them."""
    for node in _nodes(graph):
        place, axis, kind = _OPERATORS.get(node.kind(), (0, 0, "none"))
        inputs = list(node.inputs())
        weight = inputs[place].toIValue() if kind != "none" and place < len(inputs) else None
        if weight is None or not hasattr(weight, "dim") or axis >= weight.dim():
            continue
        named = kind or _CONVOLUTIONS.get(weight.dim(), "")
        dtype = str(weight.dtype).removeprefix("torch.")
        yield Layer(inputs[place].debugName(), named, int(weight.shape[axis]), dtype)


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)

"""Widen the steps of weights whose bias would not fit.

A bias is an integer of 32 bits in steps of (step of the input) x (step of the weights). A channel whose weights are
all but zero, as training leaves them, has steps so small that its bias overflows, and the quantizer clips it silently.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convert.targets.ranges import Range
from convert.targets.tflite_named import Graph, Operator

Array = np.ndarray[Any, Any]
#: Axis of the weights that holds the output channels.
_CHANNEL = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 0}
#: A bit is left for the sum that the bias is added to.
_LARGEST = 2.0**30


def weight_bounds(graph: Graph, ranges: dict[str, Range], bits: int) -> dict[str, Array]:
    """Bounds for those weights only whose bias would overflow.

    Args:
        graph: a float file.
        ranges: of its activations.
        bits: of the activations.

    Returns:
        Name of the weights -> largest absolute value per channel, of the weights' rank.
    """
    bounds: dict[str, Array] = {}
    for operator in graph.operators():
        found = _bound(graph, operator, ranges, bits)
        if found is not None:
            name, bound = found
            bounds[name] = np.maximum(bounds.get(name, bound), bound)
    return bounds


def _bound(graph: Graph, operator: Operator, ranges: dict[str, Range], bits: int) -> tuple[str, Array] | None:
    axis = _CHANNEL.get(operator.kind)
    place = 2 if operator.kind == "TRANSPOSE_CONV" else 0
    constants = operator.inputs[1:3] if place == 0 else (operator.inputs[1], *operator.inputs[3:4])
    if axis is None or len(constants) < 2 or not all(t.constant and t.type == "FLOAT32" for t in constants):
        return None
    if operator.inputs[place].name not in ranges:
        return None
    low, high = ranges[operator.inputs[place].name]
    step = (max(high, 0.0) - min(low, 0.0)) / (2**bits - 1) if bits == 8 else max(-low, high) / (2 ** (bits - 1) - 1)
    weights, bias = (graph.values(operator.subgraph, tensor) for tensor in constants)
    own = np.abs(weights).max(axis=tuple(i for i in range(weights.ndim) if i != axis), keepdims=True)
    least = 127.0 * np.abs(bias).reshape(own.shape) / (max(step, 1e-30) * _LARGEST)
    return (constants[0].name, np.maximum(own, least).astype(np.float32)) if (least > own).any() else None

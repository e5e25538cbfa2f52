"""Write a plan into a graph: QuantizeLinear and DequantizeLinear around what computes in integers (QDQ).

Weights become int8 with a scale per channel, biases int32 with the product of the scales of input and weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from convert.targets.onnx_quant_graph import Array, Graph, attribute
from convert.targets.onnx_quant_plan import Plan, Scheme
from convert.targets.ranges import Range

#: Smallest scale: below it the reciprocal that kernels multiply by is no float32.
_LEAST_SCALE = float(np.finfo(np.float32).tiny)
_LARGEST_BIAS = 2.0**30


@dataclass(frozen=True)
class Scale:
    """Real value = ``scale`` (float32, a scalar or one per channel) x (integer - ``zero``)."""

    scale: Array
    zero: int = 0
    dtype: str = "int8"


def activation_scale(found: Range, scheme: Scheme) -> Scale:
    """The scale of a tensor that holds ``found``; zero itself is always an integer."""
    low, high = min(found[0], 0.0), max(found[1], 0.0)
    dtype = "uint8" if scheme.unsigned else "int8"
    if scheme.symmetric:
        return Scale(_step(max(-low, high) / 127), 0, dtype)
    step, least = _step((high - low) / 255), int(np.iinfo(dtype).min)
    return Scale(step, int(np.clip(np.rint(least - low / float(step)), least, least + 255)), dtype)


def weight_scale(value: Array, axis: int | None, largest: int) -> Scale:
    """Symmetric scale of a constant, one per index of ``axis`` or one for all."""
    others = None if axis is None else tuple(i for i in range(value.ndim) if i != axis)
    return Scale(_step(np.abs(value.astype(np.float64)).max(axis=others, initial=0.0) / largest))


def _step(size: Any) -> Array:
    """``size`` in float32; 1 where there is nothing but zeros."""
    return np.where(np.asarray(size) > 0, np.maximum(size, _LEAST_SCALE), 1.0).astype(np.float32)


def rounded(value: Array, scale: Scale, axis: int | None = None, largest: int | None = None) -> Array:
    """``value`` in the integers of ``scale``, within ``-largest .. largest`` or whatever the dtype holds."""
    step = scale.scale.astype(np.float64)
    if axis is not None:
        step = step.reshape([-1 if i == axis else 1 for i in range(value.ndim)])
    span = np.iinfo(scale.dtype)
    low, high = (span.min, span.max) if largest is None else (-largest, largest)
    return np.asarray(np.clip(np.rint(value / step) + scale.zero, low, high), scale.dtype)


def channel_axis(node: Any, position: int, value: Array) -> int | None:
    """The axis of a constant along which scales differ; None where kernels know one scale only."""
    if position != 1:
        return None
    if node.op_type == "Conv" or (node.op_type == "Gemm" and attribute(node, "transB", 0)):
        return 0
    return 1 if node.op_type == "Gemm" or (node.op_type == "MatMul" and value.ndim == 2) else None


def write_qdq(graph: Graph, plan: Plan, scheme: Scheme, ranges: Mapping[str, Range]) -> None:
    """Change ``graph`` as ``plan`` says; every scale is exactly the one of ``ranges``."""
    _Writer(graph, plan, scheme, ranges).write()


class _Writer:
    def __init__(self, graph: Graph, plan: Plan, scheme: Scheme, ranges: Mapping[str, Range]) -> None:
        self._graph, self._plan, self._scheme = graph, plan, scheme
        self._scales = {
            name: activation_scale(ranges[name], scheme) for name in plan.values if name not in graph.constants
        }
        #: Taken before any name of an input is changed.
        self._of_input = {node.name: node.input[0] for node in plan.nodes.values()}
        self._head: list[Any] = []
        self._constants: dict[Any, str] = {}

    def write(self) -> None:
        nodes: list[Any] = []
        for name in self._graph.inputs:
            nodes += self._pair(name)
        for node in self._graph.graph.node:
            made = list(node.output)
            self._fold_constants(node)
            nodes.append(node)
            for name in made:
                nodes += self._pair(name)
        self._graph.replace_nodes([*self._head, *nodes])

    def _scale_of(self, name: str) -> Scale:
        return self._scales[self._plan.root.get(name, name)]

    def _pair(self, name: str) -> list[Any]:
        """Round ``name`` to integers and back, for the nodes that want it so or, where it is made so, for all."""
        readers = self._plan.reads.get(name, [])
        made = name in self._plan.written
        if not (readers or made):
            return []
        before, after = name, name
        if made:
            producer = self._graph.producer[name]
            before = self._graph.fresh(f"{name}_float")
            producer.output[list(producer.output).index(name)] = before
        else:
            after = self._graph.fresh(f"{name}_rounded")
            for reader, position in readers:
                self._plan.nodes[reader].input[position] = after
        return self._quantize(name, before, after)

    def _quantize(self, name: str, before: str, after: str) -> list[Any]:
        from onnx import helper

        found = self._scale_of(name)
        scale = self._graph.add_constant(f"{name}_scale", np.asarray(found.scale, np.float32))
        zero = self._graph.add_constant(f"{name}_zero", np.asarray(found.zero, found.dtype))
        between = self._graph.fresh(f"{name}_{found.dtype}")
        return [
            helper.make_node("QuantizeLinear", [before, scale, zero], [between], self._graph.fresh(f"{name}_quantize")),
            helper.make_node(
                "DequantizeLinear", [between, scale, zero], [after], self._graph.fresh(f"{name}_dequantize")
            ),
        ]

    def _fold_constants(self, node: Any) -> None:
        """Put integers in place of the constants that a planned node computes with."""
        if node.name not in self._plan.nodes or node.op_type in self._scheme.movers:
            return
        for position, name in enumerate(list(node.input)):
            if not self._graph.float_constant(name) or (node.name, position) not in self._plan.reads.get(name, []):
                continue
            value = self._graph.array(name)
            axis = channel_axis(node, position, value)
            weighted = node.op_type in ("Conv", "Gemm", "MatMul")
            if weighted:
                largest = self._scheme.largest_weight
                scale = self._with_bias(node, weight_scale(value, axis, largest))
                integers = rounded(value, scale, axis, largest)
            else:
                found = (float(value.min(initial=0.0)), float(value.max(initial=0.0)))
                scale = activation_scale(found, self._scheme)
                integers = rounded(value, scale)
            node.input[position] = self._constant(name, integers, scale, axis)

    def _with_bias(self, node: Any, weight: Scale) -> Scale:
        """Write the bias in int32, and widen the scales of channels whose bias would not fit."""
        if not self._scheme.outputs or node.op_type == "MatMul" or len(node.input) < 3 or not node.input[2]:
            return weight
        name = node.input[2]
        bias = self._graph.array(name).astype(np.float64)
        of_input = float(self._scale_of(self._of_input[node.name]).scale)
        wide = np.maximum(weight.scale, np.abs(bias) / of_input / _LARGEST_BIAS).astype(np.float32)
        scale = Scale((wide * np.float32(of_input)).astype(np.float32))
        node.input[2] = self._constant(name, np.rint(bias / scale.scale).astype(np.int32), scale, 0)
        return Scale(wide)

    def _constant(self, name: str, value: Array, scale: Scale, axis: int | None) -> str:
        from onnx import helper

        key = (name, axis, value.tobytes(), scale.scale.tobytes(), scale.zero)
        if key not in self._constants:
            stored = self._graph.add_constant(f"{name}_{value.dtype}", value)
            step = self._graph.add_constant(f"{name}_scale", scale.scale)
            zero = np.full(scale.scale.shape, scale.zero, value.dtype)
            inputs = [stored, step, self._graph.add_constant(f"{name}_zero", zero)]
            output = self._graph.fresh(f"{name}_rounded")
            axes = {} if axis is None else {"axis": axis}
            node = helper.make_node(
                "DequantizeLinear", inputs, [output], self._graph.fresh(f"{name}_dequantize"), **axes
            )
            self._head.append(node)
            self._constants[key] = output
        return self._constants[key]

"""Weights in int8 with a scale per channel; no data is needed, since nothing is known of the values in between.

Matrix products compute in integers: their input is rounded to uint8 while the model runs, by its own extremes. Other
weights (convolutions, recurrent layers, embeddings) are turned back into floats, so that they cost a quarter of the
space and no accuracy but that of the weights: onnxruntime's integer convolution takes neither int8 nor several scales.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convert.errors import StageError
from convert.targets.onnx_quant_graph import Array, Graph, attribute
from convert.targets.onnx_quant_write import rounded, weight_scale

#: Kind of node -> position of each weight, and the axis along which its scales differ.
_STORED = {
    "Conv": ((1, 0),),
    "ConvTranspose": ((1, 1),),
    "Gemm": ((1, 0),),
    "MatMul": ((1, None),),
    "LSTM": ((1, 1), (2, 1)),
    "GRU": ((1, 1), (2, 1)),
    "RNN": ((1, 1), (2, 1)),
}


def make_dynamic(model: Any, largest: int = 127, keep: tuple[str, ...] = ()) -> Any:
    """``model`` with its weights in int8; changed in place.

    Args:
        model: a float32 graph.
        largest: largest absolute integer of a weight.
        keep: names of nodes that stay in float.

    Raises:
        StageError: there is no weight that could be int8.
    """
    graph = Graph(model)
    writer = _Writer(graph, largest)
    nodes: list[Any] = []
    for node in graph.graph.node:
        nodes += [node] if node.name in keep else writer.rewrite(node)
    if not writer.count:
        raise StageError(
            "no convolution, matrix product, recurrent layer or embedding has constant weights; use float16 instead"
        )
    graph.replace_nodes([*writer.head, *nodes])
    return graph.model


class _Writer:
    def __init__(self, graph: Graph, largest: int) -> None:
        self._graph, self._largest = graph, largest
        self.head: list[Any] = []
        self.count = 0
        self._rounded: dict[str, list[str]] = {}
        self._stored: dict[tuple[str, int | None], str] = {}

    def rewrite(self, node: Any) -> list[Any]:
        """The nodes that come in place of ``node``."""
        if node.op_type in ("MatMul", "Gemm") and self._is_product(node):
            self.count += 1
            return self._product(node)
        if node.op_type == "Gather" and self._is_table(node):
            self.count += 1
            return self._lookup(node)
        for position, axis in _STORED.get(node.op_type, ()):
            if len(node.input) > position and self._graph.float_constant(node.input[position]):
                self.count += 1
                node.input[position] = self._restored(node.input[position], axis)
        return [node]

    def _is_product(self, node: Any) -> bool:
        weight = node.input[1]
        if not self._graph.float_constant(weight) or len(self._graph.constants[weight].dims) != 2:
            return False
        return node.op_type == "MatMul" or (
            not attribute(node, "transA", 0)
            and attribute(node, "alpha", 1.0) == 1.0
            and attribute(node, "beta", 1.0) == 1.0
        )

    def _product(self, node: Any) -> list[Any]:
        """``x w + b`` as ``(rounded x) (int8 w)`` in int32, times both scales, plus ``b``: onnxruntime fuses this."""
        weight = self._graph.array(node.input[1])
        if node.op_type == "Gemm" and attribute(node, "transB", 0):
            weight = weight.T
        stored, scale = self._integers(node.input[1], weight, 1)
        nodes, (x, x_scale, x_zero) = self._round(node.input[0])
        bias = node.input[2] if len(node.input) > 2 else ""
        total, real, both = (self._graph.fresh(f"{node.output[0]}_{word}") for word in ("int32", "cast", "scale"))
        product = self._graph.fresh(f"{node.output[0]}_product") if bias else node.output[0]
        nodes += [
            self._node("MatMulInteger", [x, stored, x_zero], total, node.name),
            self._node("Cast", [total], real, f"{node.name}_cast", to=1),
            self._node("Mul", [x_scale, scale], both, f"{node.name}_scale"),
            self._node("Mul", [real, both], product, f"{node.name}_scaled"),
        ]
        return [*nodes, self._node("Add", [product, bias], node.output[0], f"{node.name}_bias")] if bias else nodes

    def _round(self, name: str) -> tuple[list[Any], list[str]]:
        """Nodes that round ``name`` by its own extremes, once for all its readers; names of values, scale and zero."""
        if name in self._rounded:
            return [], self._rounded[name]
        from onnx import helper

        outputs = [self._graph.fresh(f"{name}_{word}") for word in ("uint8", "scale", "zero")]
        self._rounded[name] = outputs
        return [helper.make_node("DynamicQuantizeLinear", [name], outputs, self._graph.fresh(f"{name}_round"))], outputs

    def _is_table(self, node: Any) -> bool:
        table = node.input[0]
        flat = self._graph.float_constant(table) and len(self._graph.constants[table].dims) == 2
        return flat and attribute(node, "axis", 0) == 0

    def _lookup(self, node: Any) -> list[Any]:
        """Only the rows that are looked up become floats again."""
        stored, scale = self._integers(node.input[0], self._graph.array(node.input[0]), 1)
        row = self._graph.fresh(f"{node.output[0]}_int8")
        return [
            self._node("Gather", [stored, node.input[1]], row, node.name, axis=0),
            self._node("DequantizeLinear", [row, scale], node.output[0], f"{node.name}_restore", axis=-1),
        ]

    def _restored(self, name: str, axis: int | None) -> str:
        """The name of the weight as floats again.

        By Cast and Mul: onnxruntime folds these when it loads the file, and runs at the speed of floats. A
        DequantizeLinear it would keep and run every time (measured at four times the latency).
        """
        if (name, axis) not in self._stored:
            value = self._graph.array(name)
            stored, scale = self._integers(name, value, axis, spread=True)
            real, output = (self._graph.fresh(f"{name}_{word}") for word in ("cast", "restored"))
            self.head += [
                self._node("Cast", [stored], real, f"{name}_cast", to=1),
                self._node("Mul", [real, scale], output, f"{name}_restore"),
            ]
            self._stored[(name, axis)] = output
        return self._stored[(name, axis)]

    def _integers(self, name: str, value: Array, axis: int | None, *, spread: bool = False) -> tuple[str, str]:
        """Names of the integers and of their scales, which ``spread`` shapes so that they multiply the integers."""
        scale = weight_scale(value, axis, self._largest)
        integers = rounded(value, scale, axis, self._largest)
        step = np.asarray(scale.scale, np.float32)
        if spread and axis is not None:
            step = step.reshape([-1 if i == axis else 1 for i in range(value.ndim)])
        return self._graph.add_constant(f"{name}_int8", integers), self._graph.add_constant(f"{name}_scale", step)

    def _node(self, kind: str, inputs: list[str], output: str, name: str, **attributes: Any) -> Any:
        from onnx import helper

        return helper.make_node(kind, inputs, [output], self._graph.fresh(name), **attributes)

"""An ONNX graph as its integer forms need it: every node named, constants as initializers, who reads what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from convert.errors import StageError

#: The first opset with a scale per channel.
LEAST_OPSET = 13
Array = np.ndarray[Any, Any]


class Graph:
    """A model with an index over the nodes of its main graph (those of branches and loops are left alone)."""

    def __init__(self, model: Any) -> None:
        """Index ``model``, which is changed: nodes get names and constants become initializers.

        Raises:
            StageError: its opset has no scales per channel.
        """
        opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
        if opset < LEAST_OPSET:
            raise StageError(f"integers need opset {LEAST_OPSET} or newer, and the graph has {opset}; raise --opset")
        self.model = model
        self.graph = model.graph
        _move_constants(model.graph)
        seen: set[str] = set()
        for index, node in enumerate(model.graph.node):
            if not node.name or node.name in seen:
                node.name = f"{node.name or node.op_type}_{index}"
            seen.add(node.name)
        self.index()

    def index(self) -> None:
        """Look at the nodes anew after they were changed."""
        self.constants = {tensor.name: tensor for tensor in self.graph.initializer}
        self.inputs = [value.name for value in self.graph.input if value.name not in self.constants]
        self.outputs = [value.name for value in self.graph.output]
        self.producer = {name: node for node in self.graph.node for name in node.output if name}
        self.readers: dict[str, list[Any]] = {}
        for node in self.graph.node:
            for name in dict.fromkeys([*node.input, *_captured(node)]):
                self.readers.setdefault(name, []).append(node)
        self._names = {*self.constants, *self.inputs, *self.producer, *(node.name for node in self.graph.node)}

    def array(self, name: str) -> Array:
        """The constant ``name``."""
        from onnx import numpy_helper

        return np.asarray(numpy_helper.to_array(self.constants[name]))

    def float_constant(self, name: str) -> bool:
        """Whether ``name`` is a constant of float32."""
        from onnx import TensorProto

        return name in self.constants and self.constants[name].data_type == TensorProto.FLOAT

    def only_reader(self, name: str) -> Any:
        """The node that alone reads ``name``; None where others do, or where it is an output of the graph."""
        readers = self.readers.get(name, [])
        return readers[0] if len(readers) == 1 and name not in self.outputs else None

    def fresh(self, wanted: str) -> str:
        """``wanted``, or the like where that name is taken; the name is taken from then on."""
        name, count = wanted, 1
        while name in self._names:
            name, count = f"{wanted}_{count}", count + 1
        self._names.add(name)
        return name

    def add_constant(self, wanted: str, value: Array) -> str:
        """Add an initializer; returns its name."""
        from onnx import numpy_helper

        name = self.fresh(wanted)
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def replace_nodes(self, nodes: Iterable[Any]) -> None:
        """Put ``nodes`` in place of the graph's, and drop the constants that none of them reads any more."""
        nodes = list(nodes)
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        used = {name for node in nodes for name in (*node.input, *_captured(node))} | set(self.outputs)
        for group in (self.graph.initializer, self.graph.input):
            for index in reversed(range(len(group))):
                if group[index].name in self.constants and group[index].name not in used:
                    del group[index]
        del self.graph.value_info[:]
        self.index()


def attribute(node: Any, name: str, default: Any) -> Any:
    """The attribute ``name`` of ``node``."""
    from onnx import helper

    return next((helper.get_attribute_value(entry) for entry in node.attribute if entry.name == name), default)


def _captured(node: Any) -> set[str]:
    """Names that the branches and bodies of ``node`` read from outside."""
    names: set[str] = set()
    for entry in node.attribute:
        for graph in [entry.g] if entry.HasField("g") else entry.graphs:
            inside = {value.name for value in (*graph.input, *graph.initializer)}
            inside |= {name for inner in graph.node for name in inner.output}
            read = {name for inner in graph.node for name in (*inner.input, *_captured(inner))}
            names |= (read | {value.name for value in graph.output}) - inside
    return names


def _move_constants(graph: Any) -> None:
    """Make initializers of the tensors that nodes of kind ``Constant`` hold."""
    for node in [node for node in graph.node if node.op_type == "Constant"]:
        value = attribute(node, "value", None)
        if value is not None:
            graph.initializer.append(value)
            graph.initializer[-1].name = node.output[0]
            graph.node.remove(node)

"""Run an ONNX graph operator by operator: every value between two of them has the type that the file gives it.

onnxruntime has few float16 kernels for CPUs. In a whole graph it computes the other operators in float32 and hands the
result to the next without rounding it, even with its optimisations off; one operator at a time it has to round. Sums
inside an operator are still made in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


class Stepwise:
    """One graph, with a session for each of its operators, made when it is first run."""

    def __init__(self, model: Any) -> None:
        """``model`` is an ``onnx.ModelProto`` with its weights; its nodes may stand in any order."""
        from onnx import ModelProto, numpy_helper

        self._constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self._nodes = in_order(model.graph.node, {*self._constants, *(value.name for value in model.graph.input)})
        self._outputs = [value.name for value in model.graph.output]
        self._frame = ModelProto(ir_version=model.ir_version)
        self._frame.opset_import.extend(model.opset_import)
        self._frame.functions.extend(model.functions)
        self._sessions: dict[tuple[int, tuple[str, ...]], Any] = {}
        self._last_use = {name: index for index, node in enumerate(self._nodes) for name in reads(node)}

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs, by name, for ``feeds`` by name.

        Raises:
            TypeError: a value is no tensor (a sequence, an optional), which cannot be handed on.
        """
        values: dict[str, Any] = dict(feeds)
        for index, node in enumerate(self._nodes):
            self._step(index, node, values)
            for name in reads(node):
                if self._last_use[name] == index and name not in self._outputs:
                    values.pop(name, None)
        return {name: values[name] if name in values else self._constants[name] for name in self._outputs}

    def _step(self, index: int, node: Any, values: dict[str, Any]) -> None:
        given = {name: values[name] for name in reads(node) if name in values}
        for name, value in given.items():
            if not isinstance(value, np.ndarray):
                raise TypeError(f"{name} is no tensor")
        key = (index, tuple(str(value.dtype) for value in given.values()))
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = self._session(node, given)
        names = [name for name in node.output if name]
        values.update(zip(names, session.run(names, given), strict=True))

    def _session(self, node: Any, given: Mapping[str, Any]) -> Any:
        import onnx
        import onnxruntime as ort
        from onnx import helper, numpy_helper

        model = onnx.ModelProto()
        model.CopyFrom(self._frame)
        graph = model.graph
        graph.name = "step"
        graph.node.add().CopyFrom(node)
        for name, value in given.items():
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            graph.input.add().CopyFrom(helper.make_tensor_value_info(name, kind, None))
        for name in reads(node):
            if name in self._constants and name not in given:
                graph.initializer.add().CopyFrom(numpy_helper.from_array(self._constants[name], name))
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def reads(node: Any) -> tuple[str, ...]:
    """Names that a node reads, those that its branches and loops take from outside included."""
    return tuple(dict.fromkeys((*(name for name in node.input if name), *_from_outside(node))))


def _from_outside(node: Any) -> Iterator[str]:
    for attribute in node.attribute:
        for graph in ((attribute.g,) if attribute.HasField("g") else ()) + tuple(attribute.graphs):
            own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
            own |= {name for inner in graph.node for name in inner.output}
            named = (*(name for inner in graph.node for name in reads(inner)), *(value.name for value in graph.output))
            yield from (name for name in named if name not in own)


def in_order(nodes: Any, known: set[str]) -> list[Any]:
    """``nodes`` so that each stands after those whose results it reads, else as they stood.

    Args:
        nodes: of one graph.
        known: names of its inputs and constants.

    Raises:
        ValueError: they cannot be put in order: a cycle, or a name that nothing gives.
    """
    ordered, known, waiting = [], set(known), list(nodes)
    while waiting:
        later = []
        for node in waiting:
            if all(name in known for name in reads(node)):
                ordered.append(node)
                known.update(node.output)
            else:
                later.append(node)
        if len(later) == len(waiting):
            raise ValueError(f"the nodes of the graph cannot be put in order; {later[0].name} reads what nothing gives")
        waiting = later
    return ordered

"""Turn the composites of :mod:`convert.targets.tflite_recurrent` into loops over time, of built-in operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from convert.errors import StageError
from convert.targets.tflite_graph import Array, Graph, schema
from convert.targets.tflite_recurrent import PREFIX


def loops(model: Any) -> Any:
    """Replace every such composite in ``model``, a ``ModelT``; gives it.

    Raises:
        StageError: litert-torch changed a composite on its way into the file.
    """
    for index in range(len(model.subgraphs)):
        graph, operators = Graph(model, model.subgraphs[index]), []
        for operator in graph.body.operators:
            cell = _cell(graph, operator)
            if cell:
                _replace(graph, operator, cell)
            operators.append(operator)
        graph.body.operators = operators
    return model


def _cell(graph: Graph, operator: Any) -> str:
    if graph.name_of(operator) != "STABLEHLO_COMPOSITE":
        return ""
    name: str = bytes(operator.builtinOptions2.name).decode()
    return name.removeprefix(PREFIX) if name.startswith(PREFIX) else ""


def _replace(graph: Graph, operator: Any, cell: str) -> None:
    """The loop carries the step, the gates ``[T, N, G]``, the results and the states ``[N, H]``.

    The results are ``[T, N, H]``; an LSTM's have a row more, for its memory after the last step.
    """
    gates, start, weight, bias, *states = operator.inputs
    if any(graph.data(tensor) is None for tensor in (weight, bias)) or len(states) != (2 if cell == "lstm" else 1):
        raise StageError(f"litert-torch changed the recurrent layer {cell} on its way into the file")
    carried = [graph.constant(np.array(0, np.int32)), gates, start, *states]
    shapes = [(), graph.shape(gates), graph.shape(start), *(graph.shape(state) for state in states)]
    weights = [graph.value(weight), graph.value(bias)]
    model = graph.model
    # The stand-in is not needed any more, and its place saves renumbering the other subgraphs.
    model.subgraphs[operator.builtinOptions2.decompositionSubgraphIndex] = _body(model, cell, shapes, weights)
    model.subgraphs.append(_condition(model, shapes))
    at = operator.builtinOptions2.decompositionSubgraphIndex
    operator.builtinOptions2, operator.builtinOptions2Type = None, 0
    kinds = schema().TensorType
    left = [graph.tensor(shape, kinds.FLOAT32 if shape else kinds.INT32) for shape in shapes]
    left[2] = operator.outputs[0]
    operator.inputs, operator.outputs = carried, left
    graph.become(operator, "WHILE", condSubgraphIndex=len(model.subgraphs) - 1, bodySubgraphIndex=at)


def _subgraph(model: Any, name: str, shapes: Sequence[Sequence[int]]) -> Graph:
    """A new subgraph that takes what the loop carries; not yet in ``model.subgraphs``."""
    made = schema().SubGraphT()
    made.tensors, made.operators, made.inputs, made.outputs, made.name = [], [], [], [], name.encode()
    graph = Graph(model, made)
    kinds = schema().TensorType
    made.inputs = [graph.tensor(shape, kinds.FLOAT32 if shape else kinds.INT32) for shape in shapes]
    return graph


def _condition(model: Any, shapes: Sequence[Sequence[int]]) -> Any:
    """Whether the step is below the length."""
    graph, kinds = _subgraph(model, "recurrent/condition", shapes), schema().TensorType
    shape = graph.add("SHAPE", [graph.body.inputs[1]], (3,), outType=kinds.INT32)
    places = [graph.ints(0), graph.ints(1), graph.ints(1)]
    length = graph.add("STRIDED_SLICE", [shape, *places], (), shrinkAxisMask=1)
    graph.body.outputs = [graph.add("LESS", [graph.body.inputs[0], length], (), kinds.BOOL)]
    graph.body.operators = graph.added
    return graph.body


def _body(model: Any, cell: str, shapes: Sequence[Sequence[int]], weights: Sequence[Array]) -> Any:
    """One step."""
    graph, floats = _subgraph(model, f"recurrent/{cell}", shapes), schema().TensorType.FLOAT32
    step, gates, results, *states = graph.body.inputs
    # Copies, since ai-edge-quantizer turns each tensor's buffer into another type for itself.
    weight, bias = (graph.constant(value) for value in weights)
    maths = _Maths(graph, (shapes[2][1], shapes[2][2]))
    wide = (shapes[1][1], shapes[1][2])
    ours = graph.add("GATHER", [gates, step], wide, floats, axis=0)
    mixed = graph.add("FULLY_CONNECTED", [states[0], weight, bias], wide, floats)
    new = _CELLS[cell](maths, ours, mixed, states)
    place = graph.add("CONCATENATION", [graph.add("RESHAPE", [step, graph.ints(1)], (1,)), graph.ints(0, 0)], (3,))
    rows = [graph.add("EXPAND_DIMS", [one, graph.ints(0)], (1, *maths.shape), floats) for one in new]
    # The next step writes over the memory, so that the last one's is left.
    row = graph.add("CONCATENATION", rows, (2, *maths.shape), floats) if len(rows) > 1 else rows[0]
    filled = graph.add("DYNAMIC_UPDATE_SLICE", [results, row, place], shapes[2], floats)
    following = graph.add("ADD", [step, graph.constant(np.array(1, np.int32))], ())
    graph.body.outputs = [following, gates, filled, *new]
    graph.body.operators = graph.added
    return graph.body


@dataclass(frozen=True)
class _Maths:
    """Arithmetic on ``[N, H]``."""

    graph: Graph
    shape: tuple[int, int]

    def __call__(self, name: str, *tensors: int) -> int:
        return self.graph.add(name, tensors, self.shape, schema().TensorType.FLOAT32)

    def gate(self, tensor: int, at: int) -> int:
        """Gate ``at`` of ``[N, G]``."""
        return self("SLICE", tensor, self.graph.ints(0, at * self.shape[1]), self.graph.ints(-1, self.shape[1]))


def _lstm(do: _Maths, ours: int, mixed: int, states: Sequence[int]) -> list[int]:
    total = do.graph.add("ADD", [ours, mixed], do.graph.shape(ours), schema().TensorType.FLOAT32)
    take, keep, give = (do("LOGISTIC", do.gate(total, at)) for at in (0, 1, 3))
    candidate = do("TANH", do.gate(total, 2))
    memory = do("ADD", do("MUL", keep, states[1]), do("MUL", take, candidate))
    return [do("MUL", give, do("TANH", memory)), memory]


def _gru(do: _Maths, ours: int, mixed: int, states: Sequence[int]) -> list[int]:
    reset, update = (do("LOGISTIC", do("ADD", do.gate(ours, at), do.gate(mixed, at))) for at in (0, 1))
    candidate = do("TANH", do("ADD", do.gate(ours, 2), do("MUL", reset, do.gate(mixed, 2))))
    return [do("ADD", candidate, do("MUL", update, do("SUB", states[0], candidate)))]


def _plain(activation: str) -> Callable[[_Maths, int, int, Sequence[int]], list[int]]:
    def step(do: _Maths, ours: int, mixed: int, states: Sequence[int]) -> list[int]:
        del states
        return [do(activation, do("ADD", ours, mixed))]

    return step


_CELLS = {"lstm": _lstm, "gru": _gru, "rnn_tanh": _plain("TANH"), "rnn_relu": _plain("RELU")}

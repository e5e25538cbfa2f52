"""Two conversions at different sizes become one file for all sizes, on graphs built by hand and run for real."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from convert.errors import StageError
from convert.records import Dim
from convert.targets.tflite_graph import Graph, schema
from convert.targets.tflite_resize import joined, two_settings
from convert.targets.tflite_sizes import prolonged, shrunk

pytest.importorskip("ai_edge_litert")
Array = np.ndarray[Any, Any]
BOTH = ("SQUEEZE", "EXPAND_DIMS")
Draw = Callable[[Graph, int], int]


def model(shape: Sequence[int], draw: Draw, kind: str = "FLOAT32") -> Any:
    """A file with one input of ``shape``; ``draw`` adds operators after it and gives the output."""
    made = schema().ModelT()
    made.version, made.description = 3, b"test"
    made.operatorCodes, made.buffers, made.subgraphs = [], [schema().BufferT()], [schema().SubGraphT()]
    body = made.subgraphs[0]
    body.tensors, body.operators = [], []
    graph = Graph(made, body)
    body.inputs = [graph.tensor(shape, getattr(schema().TensorType, kind))]
    body.outputs = [draw(graph, body.inputs[0])]
    body.operators = graph.added
    return made


def run(made: Any, value: Array) -> Array:
    from ai_edge_litert.interpreter import Interpreter
    from ai_edge_litert.tools import flatbuffer_utils

    interpreter = Interpreter(model_content=bytes(flatbuffer_utils.convert_object_to_bytearray(made)))
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, value.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(index, value)
    interpreter.invoke()
    result: Array = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return result


def names(made: Any) -> list[str]:
    graph = Graph(made, made.subgraphs[0])
    return [graph.name_of(operator) for operator in graph.body.operators]


def floats(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def reshape(*target: int) -> Draw:
    kind = schema().TensorType.FLOAT32
    return lambda graph, x: graph.add("RESHAPE", [x, graph.ints(*target)], target, kind)


def cut(begin: Sequence[int], size: Sequence[int]) -> Draw:
    kind = schema().TensorType.FLOAT32
    return lambda graph, x: graph.add("SLICE", [x, graph.ints(*begin), graph.ints(*size)], size, kind)


def mixed(name: str, value: Array, shape: Sequence[int], **options: Any) -> Draw:
    kind = schema().TensorType.FLOAT32
    return lambda graph, x: graph.add(name, [x, graph.constant(value)], shape, kind, **options)


@pytest.mark.parametrize(
    ("shapes", "draws", "new", "wanted", "operators"),
    [
        # One size is dynamic: the runtime finds it.
        (((2, 6), (5, 6)), (reshape(2, 2, 3), reshape(5, 2, 3)), (7, 6), (7, 2, 3), ["RESHAPE"]),
        (((2, 6), (5, 6)), (reshape(12), reshape(30)), (7, 6), (42,), ["RESHAPE"]),
        # Two are, but only axes of size 1 come and go.
        (((2, 3), (5, 4)), (reshape(2, 1, 3), reshape(5, 1, 4)), (7, 6), (7, 1, 6), ["EXPAND_DIMS"]),
        (((2, 1, 3), (5, 1, 4)), (reshape(2, 3), reshape(5, 4)), (7, 1, 6), (7, 6), ["SQUEEZE"]),
        (((1, 2, 3), (1, 5, 4)), (reshape(2, 3, 1), reshape(5, 4, 1)), (1, 7, 6), (7, 6, 1), [*BOTH]),
        (((2, 3), (5, 4)), (reshape(2, 1, 3, 1), reshape(5, 1, 4, 1)), (7, 6), (7, 1, 6, 1), ["EXPAND_DIMS"] * 2),
        # Two are and the rest changes: sizes are taken from the input, one of them three times.
        (
            ((2, 6, 3), (5, 6, 4)),
            (reshape(4, 3, 3), reshape(10, 3, 4)),
            (7, 6, 8),
            (14, 3, 8),
            [*["SHAPE", "STRIDED_SLICE", "MUL"], *["SHAPE", "STRIDED_SLICE"], "CONCATENATION", "RESHAPE"],
        ),
    ],
)  # fmt: skip
def test_reshape_at_a_third_size(
    shapes: Any, draws: Any, new: tuple[int, ...], wanted: tuple[int, ...], operators: list[str]
) -> None:
    made = joined(*(model(shape, draw) for shape, draw in zip(shapes, draws, strict=True)))
    assert names(made) == operators
    for size in (shapes[0], shapes[1]):
        assert run(made, floats(*size)).size == np.prod(size)
    np.testing.assert_array_equal(run(made, floats(*new)), floats(*new).reshape(wanted))


@pytest.mark.parametrize(
    ("draws", "part"),
    [
        ((cut((0, 1), (2, 3)), cut((0, 1), (5, 3))), np.s_[:, 1:4]),  # all of the batch
        ((cut((1, 0), (1, 6)), cut((4, 0), (1, 6))), np.s_[-1:]),  # the last one
        ((cut((0, 2), (1, 4)), cut((0, 2), (4, 4))), np.s_[:-1, 2:]),  # all but the last one
        ((cut((1, 0), (1, 2)), cut((1, 0), (4, 2))), np.s_[1:, :2]),
    ],
)
def test_slice_at_a_third_size(draws: Any, part: Any) -> None:
    made = joined(model((2, 6), draws[0]), model((5, 6), draws[1]))
    np.testing.assert_array_equal(run(made, floats(7, 6)), floats(7, 6)[part])


def test_a_repeated_constant_is_broadcast() -> None:
    row = np.array([[1, 2, 4]], np.float32)
    made = joined(*(model((n, 3), mixed("ADD", row.repeat(n, 0), (n, 3))) for n in (2, 5)))
    assert names(made) == ["ADD"]
    np.testing.assert_array_equal(run(made, floats(7, 3)), floats(7, 3) + row)


def test_a_repeated_constant_is_repeated_where_the_operator_does_not() -> None:
    row = np.array([[1, 2, 4]], np.float32)
    draws = [mixed("CONCATENATION", row.repeat(n, 0), (n, 6), axis=1) for n in (2, 5)]
    made = joined(model((2, 3), draws[0]), model((5, 3), draws[1]))
    wanted = np.concatenate([floats(7, 3), row.repeat(7, 0)], 1)
    np.testing.assert_array_equal(run(made, floats(7, 3)), wanted)


def test_a_table_of_places_is_cut_to_length() -> None:
    table = floats(9, 3) * 10
    made = joined(*(model((n, 3), mixed("ADD", table[:n], (n, 3))) for n in (4, 9)))
    np.testing.assert_array_equal(run(made, floats(7, 3)), floats(7, 3) + table[:7])


def test_the_file_says_which_sizes_are_dynamic_and_holds_nothing_unused() -> None:
    made = joined(model((2, 6), reshape(2, 2, 3)), model((5, 6), reshape(5, 2, 3)))
    tensors = made.subgraphs[0].tensors
    assert [list(tensor.shapeSignature) for tensor in tensors if tensor.shapeSignature is not None] == [
        [-1, 6],
        [-1, 2, 3],
    ]
    assert (len(tensors), len(made.buffers)) == (3, 2)


def ends(graph: Graph, x: int) -> int:
    return graph.add("TANH", [x], graph.shape(x), schema().TensorType.FLOAT32)


@pytest.mark.parametrize(
    ("draws", "reason"),
    [
        ((reshape(2, 6), lambda g, x: ends(g, ends(g, x))), "writes 1 operators at one size and 2 at another"),
        ((reshape(2, 6), ends), "operator 0 is RESHAPE at one size and TANH at another"),
        ((cut((0, 0), (1, 6)), cut((0, 0), (2, 6))), "cuts at 1 at one size and at 2 at another, and that is no fixed"),
        (
            (mixed("ADD", floats(2, 6), (2, 6)), mixed("ADD", floats(5, 6)[::-1], (5, 6))),
            "ADD takes a constant whose values depend on a dynamic size",
        ),
        (
            (mixed("MUL", floats(1, 6), (2, 6)), mixed("MUL", floats(1, 6) / 2, (5, 6))),
            "MUL takes a constant whose values depend on a dynamic size",
        ),
        (
            (mixed("CONCATENATION", floats(2, 1), (2, 7), axis=1), mixed("CONCATENATION", floats(5, 1), (5, 7))),
            "operator 0 (CONCATENATION) has a setting that depends on a dynamic size",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_joined_says_why(draws: Any, reason: str) -> None:
    with pytest.raises(StageError) as caught:
        joined(model((2, 6), draws[0]), model((5, 6), draws[1]))
    assert reason in str(caught.value)


def test_a_size_that_follows_nothing_says_so() -> None:
    draws = [mixed("ADD", np.ones((n, 1, 1), np.float32), (n, 1, 6)) for n in (3, 4)]
    with pytest.raises(StageError, match=r"a size that is 3 at one size and 4 at another follows no tensor's"):
        joined(model((1, 6), draws[0]), model((1, 6), draws[1]))


def test_a_constant_may_be_longer_than_an_axis() -> None:
    draws = [mixed("CONCATENATION", np.ones((n + 1, 3), np.float32), (2 * n + 1, 3), axis=0) for n in (2, 5)]
    made = joined(model((2, 3), draws[0]), model((5, 3), draws[1]))
    np.testing.assert_array_equal(run(made, floats(7, 3)), np.concatenate([floats(7, 3), np.ones((8, 3))]))


def test_two_settings_use_the_largest_and_tell_dimensions_apart() -> None:
    assert two_settings([Dim("N", 1, 4, 8)]) == ({"N": 4}, {"N": 8})
    assert two_settings([Dim("N", 1, 8, 8)]) == ({"N": 7}, {"N": 8})
    assert two_settings([Dim("N", 1, 1, 2)]) == ({"N": 1}, {"N": 2})
    first, second = two_settings([Dim("H", 8, 16, 24), Dim("W", 8, 16, 24), Dim("D", 8, 16, 24)])
    assert (first, second) == ({"H": 16, "W": 24, "D": 15}, {"H": 24, "W": 16, "D": 24})


def test_constants_that_grow() -> None:
    assert shrunk(np.zeros((2, 3)), np.zeros((5, 3))).tolist() == [[0, 0, 0]]  # type: ignore[union-attr]
    assert shrunk(floats(2, 3), floats(5, 3)) is None
    assert shrunk(floats(2, 3), floats(2, 3)) is None
    assert prolonged(np.arange(3), np.arange(5)).tolist() == [0, 1, 2, 3, 4]  # type: ignore[union-attr]
    assert prolonged(np.arange(5), np.arange(3)).tolist() == [0, 1, 2, 3, 4]  # type: ignore[union-attr]
    assert prolonged(np.zeros((2, 9)), np.zeros((5, 3))) is None

"""Integer TFLite files: ranges, steps and zero points to the last digit, what is read back, and what is refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.tflite_files import Data, Writer, outlier_net, request

from convert.errors import StageError
from convert.precisions import FIXED
from convert.records import Artifact, IoEntry, Operators, Quantization
from convert.targets.base import BuildRequest
from convert.targets.tflite import TFLite
from convert.targets.tflite_fuse import fused
from convert.targets.tflite_named import read, write
from convert.targets.tflite_operators import read_operators, require_full_integer

pytestmark = [pytest.mark.toolkit, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

WEIGHTS = np.array([[1.0, -0.5], [0.25, 2.0]])
BIAS = np.array([0.5, -1.0])
#: Minimum -1 and maximum 3, each in one batch only: what forgets batches would miss them.
BATCHES = [[[-1.0, 0.0], [0.5, 0.0]], [[3.0, 1.0], [0.0, 0.0]], *[[[0.1, 0.1], [0.2, 0.1]]] * 20]


def dense(weights: Any = WEIGHTS, bias: Any = BIAS) -> bytes:
    """One dense layer."""
    writer = Writer()
    writer.tensor("x", (None, 2))
    writer.dense("x", "y", np.asarray(weights), np.asarray(bias))
    return writer.content(["x"], ["y"])


def build(asked: BuildRequest) -> Artifact:
    return TFLite().build(asked)


def run(asked: BuildRequest, artifact: Artifact, x: Any) -> Any:
    return TFLite().open(artifact, asked.folder, 1).run({"x": np.asarray(x, np.float32)})["y"]


def entry(artifact: Artifact, role: str) -> IoEntry:
    (found,) = (one for one in artifact.io if one.role == role)
    return found


@pytest.mark.parametrize(
    ("precision", "low_scale", "low_zero", "out_scale", "out_zero", "dtype"),
    [
        # The input covers -1 .. 3; y is x0 - x1 / 2 + 1/2 and x0 / 4 + 2 x1 - 1: from -1.25 to 3.
        ("int8", 4 / 255, -64, 4.25 / 255, -53, "int8"),
        ("int16x8", 3 / 32767, 0, 3 / 32767, 0, "int16"),
    ],
)
def test_scale_and_zero_point_follow_from_all_of_the_data(
    tmp_path: Path, precision: str, low_scale: float, low_zero: int, out_scale: float, out_zero: int, dtype: str
) -> None:
    data = Data(BATCHES)
    asked = request(tmp_path, dense(), 2, 2, data, precision=precision, quantization=Quantization(io_type="int8"))
    artifact = build(asked)
    ins, outs = entry(artifact, "input"), entry(artifact, "output")
    assert (ins.dtype, ins.shape, ins.zero_point, ins.source_dtype) == (dtype, (-1, 2), low_zero, "float32")
    assert (outs.dtype, outs.shape, outs.zero_point) == (dtype, (-1, 2), out_zero)
    assert ins.scale == np.float32(low_scale)
    assert outs.scale == pytest.approx(out_scale, rel=1e-6)
    assert artifact.operators == Operators({"FULLY_CONNECTED": 1}, {})
    assert data.read == len(BATCHES)
    assert artifact.notes == (
        "made from the float32 file of route by hand",
        "ranges measured on 22 batches by minmax",
    )
    graph = read(asked.folder / "model.tflite")
    (weights,) = (t for t in graph.model.subgraphs[0].tensors if t.name == b"y/w")
    np.testing.assert_array_equal(weights.quantization.scale, np.array([1 / 127, 2 / 127], np.float32))


def test_session_takes_and_gives_floats_whatever_the_file_takes(tmp_path: Path) -> None:
    x = np.array([[0.5, 0.25], [-7.0, 9.0]])
    wanted = np.clip(x, -1, 3) @ WEIGHTS.T + BIAS
    got = {}
    for io_type in ("float", "int8"):
        place = tmp_path / io_type
        asked = request(place, dense(), 2, 2, Data(BATCHES), quantization=Quantization(io_type=io_type))
        artifact = build(asked)
        got[io_type] = run(asked, artifact, x)
        assert entry(artifact, "output").dtype == {"float": "float32", "int8": "int8"}[io_type]
        assert entry(artifact, "output").shape == (-1, 2)
    assert got["int8"].dtype == np.float32
    np.testing.assert_array_equal(got["float"], got["int8"])
    # Half a step of the input (by the weights), of the output, and saturation at both ends.
    np.testing.assert_allclose(got["int8"], np.clip(wanted, -1.25, 3.0), atol=0.03)
    with pytest.raises(StageError) as caught:
        run(asked, artifact, [[np.nan, 0.0]])
    assert caught.value.reason == "x holds NaN, and the artifact takes int8, which has no NaN"


def test_integers_at_the_boundary_without_a_scale_are_refused() -> None:
    from convert.records import InputSpec
    from convert.targets.tflite_session import _entry

    detail = {"name": "x", "dtype": np.int8, "shape_signature": [1], "quantization": (0.0, 0)}
    with pytest.raises(StageError, match="has input x as int8, and no scale says what it means"):
        _entry(InputSpec("x", "float32", (1,)), "input", detail)
    assert _entry(InputSpec("x", "int64", (1,)), "input", detail).scale is None


def test_percentile_and_squared_error_cut_off_an_outlier(tmp_path: Path) -> None:
    values = np.random.default_rng(0).uniform(-1, 1, (500, 20, 2))
    values[7, 3, 0] = 50.0
    scales = {}
    for rule in ("minmax", "percentile", "mse"):
        wish = Quantization(rule=rule, percentile=99.9, io_type="int8")
        artifact = build(request(tmp_path / rule, dense(), 2, 2, Data(values), quantization=wish))
        scales[rule] = entry(artifact, "input").scale
        assert artifact.notes[1].endswith({"percentile": "by percentile 99.9 %"}.get(rule, f"by {rule}"))
    assert scales["minmax"] == pytest.approx(51 / 255, rel=1e-4)
    assert scales["percentile"] == pytest.approx(2 / 255, rel=0.02)
    # One value of 20,000 is worth a little of the precision of the others, but not all of it.
    assert 40 / 255 < (scales["mse"] or 0) < 50.5 / 255


def test_ranges_of_16_bits_lie_evenly_about_zero(tmp_path: Path) -> None:
    """The share is that of the absolute values: 90 % of them, where 8 bits would leave out 5 % on either side."""
    values = (np.arange(40_000).reshape(100, 200, 2) + 0.5) / 40_000
    wish = Quantization(rule="percentile", percentile=90.0, io_type="int8")
    artifact = build(request(tmp_path, dense(), 2, 2, Data(values), precision="int16x8", quantization=wish))
    assert entry(artifact, "input").scale == pytest.approx(0.9 / 32767, rel=0.001)


def test_a_tensor_that_was_always_zero_has_a_step_all_the_same(tmp_path: Path) -> None:
    for precision in ("int8", "int16x8"):
        wish = Quantization(io_type="int8")
        data = Data([np.zeros((2, 2))])
        asked = request(tmp_path / precision, dense(), 2, 2, data, precision=precision, quantization=wish)
        artifact = build(asked)
        assert entry(artifact, "input").scale == pytest.approx({"int8": 1 / 255, "int16x8": 1 / 32767}[precision])
        np.testing.assert_allclose(run(asked, artifact, [[0.0, 0.0]]), [[0.5, -1.0]], atol=0.01)


def test_squared_error_at_16_bits_takes_the_whole_range_and_says_so(tmp_path: Path) -> None:
    wish = Quantization(rule="mse", io_type="int8")
    artifact = build(request(tmp_path, dense(), 2, 2, Data(BATCHES), precision="int16x8", quantization=wish))
    assert entry(artifact, "input").scale == pytest.approx(3 / 32767, rel=1e-6)
    assert "activations of 16 bits take the whole range: their rounding is next to nothing" in artifact.notes


def test_a_bias_beyond_tiny_weights_is_kept(tmp_path: Path) -> None:
    """Steps of the weights that follow from the weights alone would clip the bias to a millionth of what it is."""
    content = dense([[0.0, 0.0], [1e-8, 2.0]], [5.0, -1.0])
    for precision, near in (("int8", 0.05), ("int16x8", 0.01)):
        asked = request(tmp_path / precision, content, 2, 2, Data(BATCHES), precision=precision)
        got = run(asked, build(asked), [[1.0, 0.5], [0.0, 0.0]])
        np.testing.assert_allclose(got, [[5.0, 0.0], [5.0, -1.0]], atol=near)


def test_without_calibration_data_only_dynamic_is_made(tmp_path: Path) -> None:
    for precision in ("int8", "int16x8"):
        with pytest.raises(StageError) as caught:
            build(request(tmp_path / precision, dense(), 2, 2, None, precision=precision))
        assert caught.value.reason == (
            f"{precision} needs the ranges of the activations, and there are no calibration data"
        )
        assert caught.value.advice.startswith("give real inputs with --calibration FILE, or choose int8-dynamic")
    asked = request(tmp_path, dense(), 2, 2, None, precision="int8-dynamic")
    artifact = build(asked)
    assert artifact.operators == Operators({}, {"FULLY_CONNECTED (int8 weights)": 1})
    np.testing.assert_allclose(run(asked, artifact, [[1.0, 0.5]]), [[1.25, 0.25]], atol=0.03)


def test_data_without_a_batch_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StageError) as caught:
        build(request(tmp_path, dense(), 2, 2, Data([])))
    assert caught.value.reason == (
        "the calibration data hold no sample, so that no range can be measured; give at least one"
    )


def tanh_net() -> bytes:
    """Nothing with weights."""
    writer = Writer()
    writer.tensor("x", (None, 2))
    writer.operator("TANH", ("x",), writer.tensor("y", (None, 2)))
    return writer.content(["x"], ["y"])


def test_dynamic_refuses_a_model_without_weights(tmp_path: Path) -> None:
    with pytest.raises(StageError) as caught:
        build(request(tmp_path, tanh_net(), 2, 2, None, precision="int8-dynamic"))
    assert caught.value.reason == (
        "no operator (TANH) has weights that int8-dynamic could store as integers; use float16"
    )


def island(last: str, factor: float, end: str = "", relu: bool = False) -> bytes:
    """``x``, dense, ``last`` with as many ``factor`` as there are elements, counted at run time, dense, ``end``."""
    writer = Writer()
    writer.tensor("x", (None, 2))
    writer.dense("x", "h", WEIGHTS, BIAS)
    writer.operator("SHAPE", ("h",), writer.tensor("size", (2,), "int32"), "ShapeOptions", outType=2)
    filled = writer.operator("FILL", ("size", writer.constant("factor", factor)), writer.tensor("filled", (None, 2)))
    options = {"ADD": "AddOptions", "MUL": "MulOptions"}[last]
    writer.operator(last, ("h", filled), writer.tensor("raw", (None, 2)), options, fusedActivationFunction=int(relu))
    writer.dense("raw", "end" if end else "y", WEIGHTS, BIAS)
    if end:
        writer.operator(end, ("end",), writer.tensor("y", (None, 2)))
    return writer.content(["x"], ["y"])


def test_what_only_works_out_sizes_is_taken_out_and_sizes_stay_dynamic(tmp_path: Path) -> None:
    asked = request(tmp_path, island("ADD", 0.0), 2, 2, Data(BATCHES))
    artifact = build(asked)
    assert artifact.operators == Operators({"FULLY_CONNECTED": 2}, {})
    assert artifact.notes[2:] == ("operators that only work out sizes were taken out",)
    assert entry(artifact, "input").shape == (-1, 2)
    assert artifact.settings == {}
    x = np.full((3, 2), 0.5)
    wanted = (x @ WEIGHTS.T + BIAS) @ WEIGHTS.T + BIAS
    np.testing.assert_allclose(run(asked, artifact, x), wanted, atol=0.06)


def test_an_addition_of_zeros_that_cuts_off_is_no_copy(tmp_path: Path) -> None:
    asked = request(tmp_path, island("ADD", 0.0, relu=True), 2, 2, Data(BATCHES))
    artifact = build(asked)
    assert artifact.operators is not None
    assert artifact.operators.integer["ADD"] == 1
    x = np.array([[-1.0, 0.0], [0.5, 0.5]])
    wanted = np.maximum(x @ WEIGHTS.T + BIAS, 0) @ WEIGHTS.T + BIAS
    np.testing.assert_allclose(run(asked, artifact, x), wanted, atol=0.06)


def test_sizes_stay_dynamic_where_fixing_them_gains_nothing_more(tmp_path: Path) -> None:
    """An operator without an integer form stays float either way."""
    asked = request(tmp_path, island("ADD", 0.0, end="SIN"), 2, 2, Data(BATCHES))
    artifact = build(asked)
    assert artifact.operators == Operators({"FULLY_CONNECTED": 2}, {"DEQUANTIZE": 1, "SIN": 1})
    assert artifact.notes[2:] == ("operators that only work out sizes were taken out",)
    assert entry(artifact, "input").shape == (-1, 2)


def test_sizes_are_fixed_where_values_depend_on_them(tmp_path: Path) -> None:
    asked = request(tmp_path, island("MUL", 0.5), 2, 2, Data(BATCHES))
    artifact = build(asked)
    assert artifact.operators == Operators({"FULLY_CONNECTED": 2, "MUL": 1}, {})
    assert artifact.notes[2:] == ("every size is fixed at N=2; with dynamic sizes 4 operators would compute in float",)
    assert (entry(artifact, "input").shape, entry(artifact, "output").shape) == ((2, 2), (2, 2))
    assert artifact.settings == {FIXED: True}
    x = np.full((2, 2), 0.5)
    wanted = (x @ WEIGHTS.T + BIAS) / 2 @ WEIGHTS.T + BIAS
    np.testing.assert_allclose(run(asked, artifact, x), wanted, atol=0.06)


def test_the_frozen_route_fixes_sizes_in_any_case(tmp_path: Path) -> None:
    artifact = build(request(tmp_path, dense(), 2, 2, Data(BATCHES), route="ai-edge-quantizer-frozen"))
    assert entry(artifact, "input").shape == (2, 2)
    assert artifact.notes[2:] == ("every size is fixed at N=2",)


def half_known() -> bytes:
    """A dense layer, then a tensor that is infinite, which no integer can stand for."""
    writer = Writer()
    writer.tensor("x", (None, 2))
    writer.dense("x", "h", WEIGHTS, BIAS)
    infinite = writer.constant("low", [[-np.inf, 0.0]])
    writer.operator("ADD", ("h", infinite), writer.tensor("masked", (None, 2)), "AddOptions")
    writer.operator("SOFTMAX", ("masked",), writer.tensor("y", (None, 2)), "SoftmaxOptions", beta=1.0)
    return writer.content(["x"], ["y"])


def test_what_has_no_range_stays_float_and_is_counted(tmp_path: Path) -> None:
    asked = request(tmp_path, half_known(), 2, 2, Data(BATCHES))
    artifact = build(asked)
    # The dequantize in the middle marks the island.
    assert artifact.operators == Operators({"FULLY_CONNECTED": 1}, {"ADD": 1, "DEQUANTIZE": 1, "SOFTMAX": 1})
    np.testing.assert_array_equal(run(asked, artifact, [[1.0, 0.5]]), [[0.0, 1.0]])
    with pytest.raises(StageError) as caught:
        build(
            request(tmp_path, half_known(), 2, 2, Data(BATCHES), quantization=Quantization(require_full_integer=True))
        )
    assert caught.value.reason == (
        "3 operators compute in float (DEQUANTIZE h_dequant, ADD masked, SOFTMAX y), and a fully integer file is "
        "required"
    )
    assert "--require-full-integer" in caught.value.advice


def test_full_integer_holds_where_only_the_boundary_converts(tmp_path: Path) -> None:
    asked = request(tmp_path, dense(), 2, 2, Data(BATCHES), quantization=Quantization(require_full_integer=True))
    artifact = build(asked)
    kinds = [operator.kind for operator in read(asked.folder / "model.tflite").operators()]
    assert kinds == ["QUANTIZE", "FULLY_CONNECTED", "DEQUANTIZE"]
    assert artifact.operators == Operators({"FULLY_CONNECTED": 1}, {})


def test_a_float_file_is_read_back_as_float() -> None:
    content = dense()
    assert read_operators(content) == Operators({}, {"FULLY_CONNECTED": 1})
    with pytest.raises(StageError, match=r"^1 operators compute in float \(FULLY_CONNECTED y\), and"):
        require_full_integer(content)


def test_kept_operators_stay_float_and_an_unknown_one_is_an_error(tmp_path: Path) -> None:
    asked = request(tmp_path, island("ADD", 0.0), 2, 2, Data(BATCHES), keep=("y",))
    assert build(asked).operators == Operators({"FULLY_CONNECTED": 1}, {"FULLY_CONNECTED": 1, "DEQUANTIZE": 1})
    with pytest.raises(StageError) as caught:
        build(request(tmp_path, dense(), 2, 2, Data(BATCHES), keep=("z",)))
    assert caught.value.reason == "the file has no operator 'z' that could stay in float"


def test_a_kept_operator_does_not_take_others_along_whose_names_begin_alike(tmp_path: Path) -> None:
    writer = Writer()
    writer.tensor("x", (None, 2))
    writer.dense("x", "h", WEIGHTS, BIAS)
    writer.dense("h", "h;1", WEIGHTS, BIAS)
    writer.dense("h;1", "y", WEIGHTS, BIAS)
    asked = request(tmp_path, writer.content(["x"], ["y"]), 2, 2, Data(BATCHES), keep=("h",))
    operators = build(asked).operators
    assert operators is not None
    assert operators.integer["FULLY_CONNECTED"] == 2


def test_routes_and_bases_of_the_precisions() -> None:
    target = TFLite()
    assert target.precisions == ("float32", "float16", "int8-dynamic", "int8", "int16x8")
    assert [route.name for route in target.routes("int8")] == [
        "ai-edge-quantizer",
        "ai-edge-quantizer-frozen",
        "tf_converter-quantized",
    ]
    assert [route.name for route in target.routes("int8-dynamic")] == ["ai-edge-quantizer"]
    assert {target.base_precision(name) for name in target.precisions[1:]} == {"float32"}


def apart(clamp: str) -> Any:
    """The outlier network with the first layer's activation ``clamp`` as an operator of its own."""
    from ai_edge_litert.schema_py_generated import ActivationFunctionType, BuiltinOperator, OperatorCodeT, OperatorT

    graph = read(outlier_net())
    subgraph, codes = graph.model.subgraphs[0], graph.model.operatorCodes
    code, alone, layer = OperatorCodeT(), OperatorT(), subgraph.operators[0]
    code.builtinCode = code.deprecatedBuiltinCode = getattr(BuiltinOperator, clamp)
    code.version = 1
    between = copy.deepcopy(subgraph.tensors[layer.outputs[0]])
    between.name = b"before"
    alone.opcodeIndex, alone.inputs, alone.outputs = len(codes), [len(subgraph.tensors)], layer.outputs
    layer.outputs, layer.builtinOptions.fusedActivationFunction = alone.inputs, ActivationFunctionType.NONE
    codes.append(code)
    subgraph.tensors.append(between)
    subgraph.operators.insert(1, alone)
    return graph


@pytest.mark.parametrize("clamp", ["RELU", "RELU6", "RELU_N1_TO_1"])
def test_a_clamp_of_its_own_goes_into_the_layer_before(tmp_path: Path, clamp: str) -> None:
    from ai_edge_litert.schema_py_generated import ActivationFunctionType

    (tmp_path / "apart.tflite").write_bytes(write(apart(clamp)))
    found = fused(tmp_path / "apart.tflite", tmp_path)
    after = read(found)
    assert [one.kind for one in after.operators()] == ["FULLY_CONNECTED"] * 4
    options = after.model.subgraphs[0].operators[0].builtinOptions
    assert options.fusedActivationFunction == getattr(ActivationFunctionType, clamp)
    assert fused(found, tmp_path) == found  # nothing left to do


@pytest.mark.parametrize("why", ["output", "second reader", "clamped already", "other operator"])
def test_a_clamp_stays_where_the_layer_cannot_clamp_in_its_place(tmp_path: Path, why: str) -> None:
    from ai_edge_litert.schema_py_generated import ActivationFunctionType, BuiltinOperator

    graph = apart("RELU6")
    subgraph = graph.model.subgraphs[0]
    between = len(subgraph.tensors) - 1
    if why == "output":
        subgraph.outputs = [*subgraph.outputs, between]
    elif why == "clamped already":
        subgraph.operators[0].builtinOptions.fusedActivationFunction = ActivationFunctionType.RELU
    else:
        other, code = copy.deepcopy(subgraph.operators[1]), copy.deepcopy(graph.model.operatorCodes[-1])
        code.builtinCode = code.deprecatedBuiltinCode = BuiltinOperator.LOGISTIC
        other.opcodeIndex, other.outputs = len(graph.model.operatorCodes), [len(subgraph.tensors)]
        graph.model.operatorCodes.append(code)
        subgraph.tensors.append(copy.deepcopy(subgraph.tensors[between]))
        subgraph.tensors[-1].name = b"other"
        subgraph.operators.insert(1, other)
        if why == "other operator":
            subgraph.operators[2].inputs = other.outputs
        else:
            subgraph.outputs = [*subgraph.outputs, *other.outputs]
    (tmp_path / "apart.tflite").write_bytes(write(graph))
    assert fused(tmp_path / "apart.tflite", tmp_path) == tmp_path / "apart.tflite"

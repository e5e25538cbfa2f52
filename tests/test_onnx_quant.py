"""int8 in an ONNX graph: exact scales, what computes in integers, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import graphs

from convert.errors import StageError
from convert.records import Operators, Quantization
from convert.targets import load_target, onnx_files
from convert.targets.onnx_quant import has_vnni, measured, prepared, quantized, with_ranges
from convert.targets.onnx_quant_plan import CPU, CPU_7BIT, TENSORRT
from convert.targets.onnx_quant_read import operators_as_run
from convert.targets.onnx_quant_write import activation_scale

pytestmark = pytest.mark.toolkit

W1 = np.array([[1.27, -2.54, 0], [0.5, 1.0, 0]], np.float32)
B1 = np.array([0.501, -0.25, 0.0], np.float32)
W2 = np.array([[0.128], [0.064], [-0.254]], np.float32)
RANGES = {"x": (-1.0, 3.0), "h": (0.0, 5.1)}


def two_products() -> Any:
    nodes = (("Gemm", "x w1 b1", "g"), ("Relu", "g", "h"), ("Gemm", "h w2", "y"))
    return graphs.make(nodes, {"x": ["N", 2]}, ["y"], {"w1": W1, "b1": B1, "w2": W2})


def constants(graph: Any) -> dict[str, Any]:
    return {name: graph.array(name).tolist() for name in graph.constants}


@pytest.mark.parametrize(
    ("found", "scheme", "scale", "zero"),
    [
        ((-1.0, 3.0), CPU, 4 / 255, 64),
        ((0.0, 2.55), CPU, 0.01, 0),
        ((-2.55, 0.0), CPU, 0.01, 255),
        ((1.0, 2.55), CPU, 0.01, 0),
        ((0.0, 0.0), CPU, 1.0, 0),
        ((-1.0, 3.0), replace(CPU, unsigned=False), 4 / 255, -64),
        ((-1.0, 1.27), TENSORRT, 0.01, 0),
        ((0.0, 0.0), TENSORRT, 1.0, 0),
    ],
)
def test_scale_of_a_range(found: tuple[float, float], scheme: Any, scale: float, zero: int) -> None:
    made = activation_scale(found, scheme)
    assert made.scale.dtype == np.float32
    assert (float(made.scale), made.zero) == (float(np.float32(scale)), zero)


def test_given_ranges_stand_in_the_graph_exactly() -> None:
    values = constants(with_ranges(prepared(two_products()), CPU, RANGES))
    assert values["x_scale"] == float(np.float32(4 / 255))
    assert (values["x_zero"], values["h_zero"]) == (64, 0)
    assert values["h_scale"] == float(np.float32(5.1 / 255))
    assert values["w1_int8"] == [[127, -127, 0], [50, 50, 0]]
    np.testing.assert_allclose(values["w1_scale"], [0.01, 0.02, 1.0], rtol=1e-6)
    step = np.float32(4 / 255) * np.array([0.01, 0.02, 1.0])
    assert values["b1_int32"] == np.rint(B1 / step).astype(int).tolist()
    np.testing.assert_allclose(values["b1_scale"], step, rtol=1e-6)
    assert values["w2_int8"] == [[64], [32], [-127]]
    assert not {"w1", "b1", "w2"} & set(values)


def test_the_graph_computes_what_its_integers_say() -> None:
    graph = with_ranges(prepared(two_products()), CPU, RANGES)
    x = np.array([[-1.0, 3.0], [0.3, 0.7], [9.0, -9.0]], np.float32)
    step = 4 / 255
    inside = (np.clip(np.rint(x / np.float32(step)) + 64, 0, 255) - 64) * step
    weight = np.array([[127, -127, 0], [50, 50, 0]]) * [0.01, 0.02, 1.0]
    hidden = np.clip(np.rint(np.maximum(inside @ weight + B1, 0) / 0.02), 0, 255) * 0.02
    wanted = hidden @ (np.array([[64], [32], [-127]]) * 0.002)
    for optimised in (True, False):
        (got,) = graphs.run(graph.model, {"x": x}, optimised=optimised)
        np.testing.assert_allclose(got, wanted, atol=0.3 * 0.02 * 0.254)


def test_a_bias_far_beyond_its_weights_still_fits() -> None:
    values = {"w1": np.full((2, 1), 1e-9, np.float32), "b1": np.array([5.0], np.float32)}
    model = graphs.make((("Gemm", "x w1 b1", "y"),), {"x": ["N", 2]}, ["y"], values)
    graph = with_ranges(prepared(model), CPU, {"x": (-1.0, 1.0)})
    assert graph.array("b1_int32").tolist() == [2**30]
    (got,) = graphs.run(graph.model, {"x": np.zeros((1, 2), np.float32)})
    np.testing.assert_allclose(got, [[5.0]], rtol=1e-6)


def test_ranges_are_those_of_the_data(tmp_path: Path) -> None:
    batches = [np.array([[-1.0, 0.5]], np.float32), np.array([[2.0, 3.0], [0.0, 0.0]], np.float32)]
    request = graphs.request(
        tmp_path, two_products(), "onnx", "int8", "qdq", calibration=graphs.Batches([{"x": batch} for batch in batches])
    )
    largest = max(float((batch @ W1 + B1).max()) for batch in batches)
    assert measured(request, prepared(two_products()), CPU) == {"x": (-1.0, 3.0), "h": (0.0, pytest.approx(largest))}


def test_a_value_without_a_range_stays_float(tmp_path: Path) -> None:
    graph = with_ranges(prepared(two_products()), CPU, {"h": (0.0, 5.1)})
    onnx_files.save_graph(graph.model, tmp_path / "model.onnx")
    assert operators_as_run(tmp_path / "model.onnx", tmp_path) == Operators({"QGemm": 1}, {"Gemm": 1})


def test_every_operator_of_a_residual_network_computes_in_integers(tmp_path: Path) -> None:
    request = graphs.request(tmp_path, graphs.residual(), "onnx", "int8", "qdq")
    artifact = load_target("onnx").build(request)
    assert artifact.operators == Operators(
        {"Flatten": 1, "QGemm": 1, "QLinearAdd": 1, "QLinearConv": 2, "QLinearGlobalAveragePool": 1}, {}
    )
    signed, _ = quantized(request, request.base_folder / "model.onnx", replace(CPU, unsigned=False))  # type: ignore[operator]
    onnx_files.save_graph(signed, tmp_path / "signed.onnx")
    assert operators_as_run(tmp_path / "signed.onnx", tmp_path).floating  # which is why activations are unsigned


@pytest.mark.parametrize(
    ("precision", "route", "least"),
    [
        ("int8", "qdq", 30),
        ("int8", "qdq-7bit", 25),
        ("int8-dynamic", "dynamic", 30),
        ("int8-dynamic", "dynamic-7bit", 25),
    ],
)
def test_artifacts_are_near_the_source_at_every_batch(tmp_path: Path, precision: str, route: str, least: float) -> None:
    if route in ("qdq", "dynamic") and not has_vnni():
        pytest.skip("8-bit weights are as good as they are only on a CPU with VNNI; 7-bit ones are tested everywhere")
    model = graphs.residual()
    request = graphs.request(tmp_path, model, "onnx", precision, route)
    target = load_target("onnx")
    session = target.open(target.build(request), request.folder, 1)
    for size in (1, 5):
        x = np.random.default_rng(size).normal(size=(size, 3, 6, 6)).astype(np.float32)
        (wanted,), got = graphs.run(model, {"x": x}), session.run({"x": x})["y"]
        assert got.shape == wanted.shape
        assert 10 * np.log10((wanted**2).sum() / ((got - wanted) ** 2).sum()) > least


def test_trained_weights_keep_their_bits_where_that_is_right(tmp_path: Path) -> None:
    assert load_target("onnx").routes("int8")[0].name == "qdq-7bit"
    for route, ranges, said in (("qdq-7bit", {}, "on a grid of 8 bits"), ("qdq-7bit-learned", None, "nothing was")):
        request = graphs.request(tmp_path, graphs.residual(), "onnx", "int8", route, ranges=ranges)
        with pytest.raises(StageError, match=said):
            load_target("onnx").build(request)


def test_weights_of_seven_bits_cannot_overflow_sixteen() -> None:
    values = constants(
        with_ranges(prepared(graphs.residual()), CPU_7BIT, dict.fromkeys(["x", "r1", "c2", "sum", "mean"], (-1.0, 1.0)))
    )
    for name in ("w1_int8", "w2_int8", "w3_int8"):
        assert np.abs(values[name]).max() == 64
    assert 2 * 255 * 64 < 2**15


def test_tensorrt_gets_symmetric_signed_inputs_and_float_biases() -> None:
    graph = with_ranges(prepared(graphs.residual()), TENSORRT, dict.fromkeys(("x", "r1", "mean"), (-1.0, 2.54)))
    values = constants(graph)
    assert (values["x_scale"], values["x_zero"]) == (float(np.float32(0.02)), 0)
    assert graph.array("x_zero").dtype == np.int8
    assert {"b1", "b3"} <= set(values)
    kinds = [node.op_type for node in graph.graph.node]
    assert (kinds.count("QuantizeLinear"), kinds.count("DequantizeLinear")) == (3, 6)


@pytest.mark.parametrize("mask", [-np.inf, -1e4])
def test_a_mask_stays_float(tmp_path: Path, mask: float) -> None:
    nodes = (("MatMul", "x w", "scores"), ("Add", "scores mask", "masked"), ("Softmax", "masked", "y"))
    rows = np.array([[0, mask, 0, 0]], np.float32)
    model = graphs.make(nodes, {"x": ["N", 4]}, ["y"], {"w": np.eye(4, dtype=np.float32), "mask": rows})
    request = graphs.request(tmp_path, model, "onnx", "int8", "qdq")
    artifact = load_target("onnx").build(request)
    assert artifact.operators is not None
    assert artifact.operators.floating == {"Add": 1, "Softmax": 1}


def test_named_nodes_stay_float(tmp_path: Path) -> None:
    request = graphs.request(tmp_path, graphs.residual(), "onnx", "int8", "qdq", keep=("c2",))
    artifact = load_target("onnx").build(request)
    assert artifact.operators is not None
    # What only sums and averages is not rounded for its own sake.
    assert artifact.operators.floating == {"Add": 1, "Conv": 1, "Flatten": 1, "GlobalAveragePool": 1}
    assert artifact.operators.integer == {"QGemm": 1, "QLinearConv": 1}


def test_the_layer_that_hurts_ranks_first(tmp_path: Path) -> None:
    model = graphs.residual()
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == "w2")
    from onnx import numpy_helper

    values = numpy_helper.to_array(weight).copy()
    values[:, 0, 0, 0] = 40.0  # one outlier in each channel leaves the others two bits
    weight.CopyFrom(numpy_helper.from_array(values, "w2"))
    layers = load_target("onnx").sensitivity(graphs.request(tmp_path, model, "onnx", "int8", "qdq"))
    assert (layers[0].name, layers[0].operator) == ("c2", "Conv")
    assert {layer.name for layer in layers} == {"c1", "c2", "sum", "mean", "y"}
    assert [layer.noise for layer in layers] == sorted((layer.noise for layer in layers), reverse=True)
    with pytest.raises(StageError, match="onnx cannot keep single layers in float at precision float16"):
        load_target("onnx").sensitivity(graphs.request(tmp_path, model, "onnx", "float16", "float16"))


def test_weights_beside_the_graph_stay_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_files, "EXTERNAL_BYTES", 0)
    model = graphs.residual(width=32)
    request = graphs.request(tmp_path, model, "onnx", "int8", "qdq")
    artifact = load_target("onnx").build(request)
    assert artifact.files == ("model.onnx", "model.onnx.data")
    assert (request.folder / "model.onnx.data").stat().st_size >= 32 * 32 * 9
    assert artifact.operators is not None
    assert artifact.operators.floating == {}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (
            {"calibration": None},
            "int8 needs ranges and there is no calibration data; give real inputs with --calibration FILE",
        ),
        (
            {"calibration": graphs.Batches([])},
            "the calibration data is empty; give at least one sample with --calibration",
        ),
        ({"keep": ("c9",)}, "the graph has no node 'c9' that could stay in float"),
        (
            {"keep": ("c1", "c2", "sum", "mean", "y")},
            "nothing in the graph (Add, Conv, Flatten, Gemm, GlobalAveragePool, Relu) computes in integers by "
            "onnxruntime; use float16 instead",
        ),
        (
            {"quantization": Quantization(io_type="int8")},
            "--io-type int8 is not for onnx: nothing in an ONNX graph tells a caller "
            "the scale of an integer input; leave it at float",
        ),
        (
            {"quantization": Quantization(rule="entropy")},
            "there is no range rule 'entropy'; choose one of minmax, percentile, mse",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(tmp_path: Path, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(StageError) as caught:
        load_target("onnx").build(graphs.request(tmp_path, graphs.residual(), "onnx", "int8", "qdq", **more))
    assert caught.value.reason == reason


def test_an_old_opset_is_refused() -> None:
    with pytest.raises(StageError) as caught:
        prepared(graphs.make((("Relu", "x", "y"),), {"x": ["N"]}, ["y"], {}, opset=12))
    assert caught.value.reason == "integers need opset 13 or newer, and the graph has 12; raise --opset"


@pytest.mark.parametrize(
    ("text", "there"), [("flags : avx2 avx512_vnni", True), ("flags : avx_vnni", True), ("flags : avx2", False)]
)
def test_vnni_is_seen(tmp_path: Path, text: str, there: bool) -> None:
    (tmp_path / "cpuinfo").write_text(text, encoding="utf-8")
    assert has_vnni(tmp_path / "cpuinfo") is there
    assert not has_vnni(tmp_path / "nothing")

"""int8 weights without any data: exact integers, and exactly what they compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import graphs

from convert.errors import StageError
from convert.records import Operators
from convert.targets import load_target
from convert.targets.onnx_quant_dynamic import make_dynamic

pytestmark = pytest.mark.toolkit

W = np.array([[1.27, -2.54], [0.5, 1.0]], np.float32)
INTEGERS, SCALES = np.array([[127, -127], [50, 50]]), np.array([0.01, 0.02])


def stored(model: Any) -> dict[str, Any]:
    from onnx import numpy_helper

    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


@pytest.mark.parametrize("transposed", [0, 1])
def test_a_matrix_product_is_one_of_integers(transposed: int) -> None:
    weight = W.T if transposed else W
    bias = np.array([0.5, -1.0], np.float32)
    nodes = (("Gemm", "x w b", "y", {"transB": transposed}),)
    model = make_dynamic(graphs.make(nodes, {"x": ["N", 2]}, ["y"], {"w": weight, "b": bias}))
    values = stored(model)
    np.testing.assert_array_equal(values["w_int8"], INTEGERS)
    assert values["w_int8"].dtype == np.int8
    np.testing.assert_allclose(values["w_scale"], SCALES, rtol=1e-6)
    x = np.array([[-1.0, 1.55], [0.3, 0.7]], np.float32)
    step = 2.55 / 255
    inside = np.rint(x / step) * step  # -1.0 is a whole number of steps, so that zero is as well
    for optimised in (True, False):
        (got,) = graphs.run(model, {"x": x}, optimised=optimised)
        np.testing.assert_allclose(got, inside @ (INTEGERS * SCALES) + bias, rtol=1e-5)


def test_products_of_one_value_round_it_once() -> None:
    nodes = (("MatMul", "x w", "a"), ("MatMul", "x w", "b"), ("Add", "a b", "y"))
    model = make_dynamic(graphs.make(nodes, {"x": ["N", 2]}, ["y"], {"w": W}))
    assert [node.op_type for node in model.graph.node].count("DynamicQuantizeLinear") == 1


def test_weights_of_a_convolution_are_rounded_per_channel_and_nothing_else() -> None:
    kernel = np.array([[[[1.27, 0.004]]], [[[-2.54, 1.0]]]], np.float32)
    model = make_dynamic(graphs.make((("Conv", "x w", "y"),), {"x": ["N", 1, 1, 4]}, ["y"], {"w": kernel}))
    np.testing.assert_array_equal(stored(model)["w_int8"].ravel(), [127, 0, -127, 50])
    x = np.array([[[[1.0, 0.123456, -7.0, 2.0]]]], np.float32)
    (got,) = graphs.run(model, {"x": x})
    wanted = np.stack([1.27 * x[0, 0, :, :3], -2.54 * x[0, 0, :, :3] + x[0, 0, :, 1:]])[None]
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_only_rows_that_are_looked_up_become_floats() -> None:
    from onnx import TensorProto, helper

    model = graphs.make((("Gather", "table ids", "y"),), {}, ["y"], {"table": W})
    model.graph.input.append(helper.make_tensor_value_info("ids", TensorProto.INT64, ["N", "T"]))
    model = make_dynamic(model)
    assert [node.op_type for node in model.graph.node] == ["Gather", "DequantizeLinear"]
    (got,) = graphs.run(model, {"ids": np.array([[1, 0, 1]])})
    np.testing.assert_allclose(got, (INTEGERS * SCALES)[[1, 0, 1]][None], rtol=1e-6)


def test_recurrent_weights_are_stored_in_int8() -> None:
    random = np.random.default_rng(0)
    sizes = {"w": (1, 16, 3), "r": (1, 16, 4)}
    weights = {name: random.normal(size=size).astype(np.float32) for name, size in sizes.items()}
    source = graphs.make((("LSTM", "x w r", "y", {"hidden_size": 4}),), {"x": ["T", "N", 3]}, ["y"], weights)
    x = random.normal(size=(5, 2, 3)).astype(np.float32)
    (wanted,) = graphs.run(source, {"x": x})
    model = make_dynamic(source)
    assert {name for name, value in stored(model).items() if value.dtype == np.int8} == {"w_int8", "r_int8"}
    assert stored(model)["w_scale"].shape == (1, 16, 1)
    (got,) = graphs.run(model, {"x": x})
    assert 0 < np.abs(got - wanted).max() < 0.02


def test_what_computes_in_integers_is_read_back(tmp_path: Path) -> None:
    artifact = load_target("onnx").build(
        graphs.request(tmp_path, graphs.residual(), "onnx", "int8-dynamic", "dynamic", calibration=None)
    )
    assert artifact.operators is not None
    assert artifact.operators.integer == {"DynamicQuantizeMatMul": 1}
    assert artifact.operators.floating["ReduceMean"] == 1
    kept = graphs.request(tmp_path, graphs.residual(), "onnx", "int8-dynamic", "dynamic", keep=("y",))
    assert load_target("onnx").build(kept).operators == Operators(
        {}, {"Add": 1, "Conv": 1, "FusedConv": 1, "Gemm": 1, "ReduceMean": 1}
    )


def test_a_graph_without_weights_is_refused() -> None:
    with pytest.raises(StageError) as caught:
        make_dynamic(graphs.make((("Relu", "x", "y"),), {"x": ["N"]}, ["y"], {}))
    assert caught.value.reason == (
        "no convolution, matrix product, recurrent layer or embedding has constant weights; use float16 instead"
    )

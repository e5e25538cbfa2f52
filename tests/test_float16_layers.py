"""Which layers stay in float32, and that a float16 graph that is not right is refused before it goes anywhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import graphs

from convert.errors import StageError
from convert.targets import load_target, trt_precision
from convert.targets.onnx_float16 import Half
from convert.targets.onnx_float16_layers import layers_to_keep

pytestmark = pytest.mark.toolkit

SUM = "its sum may reach 6.4e+05 before it is divided or rooted"
AXES = np.array([1])
LIMITS = {"sample0": {"y": {"max_error": 0.05, "rms_error": 0.05}}}


def request(place: Path, graph: Any, scale: float = 1.0) -> Any:
    """A request whose calibration data are ``scale`` times a row of small numbers."""
    feeds = {value.name: np.full((2, 64), scale, np.float32) for value in graph.graph.input}
    more: dict[str, Any] = {"calibration": graphs.Batches([feeds]), "settings": {"limits": LIMITS}}
    return graphs.request(place, graph, "trt", "float16", "recipe", **more)


def kept(place: Path, nodes: list[Any], size: float = 1.0, **constants: Any) -> dict[str, str]:
    graph = graphs.make(nodes, {"x": ("N", 64)}, ["y"], constants, opset=18)
    return layers_to_keep(graph, request(place, graph, size))


NORM = [
    ("Mul", "x x", "squares"),
    ("ReduceMean", "squares axes", "mean", {"keepdims": 1}),
    ("Add", "mean epsilon", "sum"),
    ("Sqrt", "sum", "root"),
    ("Div", "x root", "y"),
]


def test_nothing_is_kept_for_nothing(tmp_path: Path) -> None:
    assert kept(tmp_path, NORM, axes=AXES, epsilon=np.float32(1e-3)) == {}


def test_an_overflow_in_the_middle_that_ends_finite(tmp_path: Path) -> None:
    found = kept(tmp_path, NORM, 300.0, axes=AXES, epsilon=np.float32(1e-3))
    assert found["squares"] == "squares reaches 9e+04"
    assert found["mean"] == "mean reaches 9e+04"
    assert "root" in found  # it takes such a value
    assert "y" not in found


def test_a_sum_that_is_larger_than_its_result(tmp_path: Path) -> None:
    # Each square is 10000 and so is their mean, the sum of the 64 is not.
    assert kept(tmp_path, NORM, 100.0, axes=AXES, epsilon=np.float32(1e-3)) == {
        "mean": "its sum may reach 6.4e+05 before it is divided or rooted"
    }
    signs = np.where(np.arange(64) % 2, 1.0, -1.0).astype(np.float32)
    cancels = [("Mul", "x signs", "products"), ("ReduceSum", "products axes", "y")]
    assert kept(tmp_path, cancels, 2000.0, axes=AXES, signs=signs) == {
        "y": "its sum may reach 1.28e+05 before it is divided or rooted"
    }


@pytest.mark.parametrize(("value", "changes"), [(1e-12, True), (1e-6, True), (1e-3, False), (0.1, False), (0.0, False)])
def test_a_constant_that_would_become_another_number(tmp_path: Path, value: float, changes: bool) -> None:
    found = kept(tmp_path, [("Add", "x c", "y")], c=np.float32(value))
    assert found == ({"y": f"the constant {value:.3g} would become another number"} if changes else {})


def test_a_mask_beyond_float16(tmp_path: Path) -> None:
    found = kept(tmp_path, [("Add", "x mask", "masked"), ("Softmax", "masked", "y")], mask=np.float32(-1e9))
    assert found["masked"].endswith("reaches 1e+09")
    assert found["y"] == "masked reaches 1e+09"


SCALE: dict[str, Any] = {"scale": np.ones(4, np.float32), "bias": np.zeros(4, np.float32)}
SPREAD = [("Reshape", "x shape", "image"), ("Mul", "image ramp", "wide")]
IMAGE: dict[str, Any] = {"shape": np.array([0, 4, 4, 4]), "ramp": np.where(np.arange(4) % 2, 1, -1).astype(np.float32)}


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "constants", "largest"),
    [
        ("ReduceMean", "wide where", {"keepdims": 0}, {"where": np.array([2, 3])}, "1.28e+05"),
        ("GlobalAveragePool", "wide", {}, {}, "1.28e+05"),
        ("AveragePool", "wide", {"kernel_shape": [3, 3], "strides": [1, 1]}, {}, "7.2e+04"),
        ("InstanceNormalization", "wide scale bias", {}, SCALE, "1.02e+09"),
        ("LpNormalization", "wide", {"axis": 1, "p": 2}, {}, "2.56e+08"),
        ("ReduceLogSum", "size where", {"keepdims": 0}, {"where": np.array([2, 3])}, "1.28e+05"),
        ("MeanVarianceNormalization", "wide", {}, {}, "2.05e+09"),
    ],
)
def test_sums_whose_signs_cancel(
    tmp_path: Path, operator: str, inputs: str, attributes: dict[str, Any], constants: dict[str, Any], largest: str
) -> None:
    nodes = [*SPREAD, ("Abs", "wide", "size"), (operator, inputs, "y", attributes)]
    assert kept(tmp_path, nodes, 8000.0, **IMAGE, **constants)["y"] == (
        f"its sum may reach {largest} before it is divided or rooted"
    )


def test_only_the_axes_that_are_reduced_count(tmp_path: Path) -> None:
    nodes = [*SPREAD, ("ReduceSum", "wide where", "y")]
    assert kept(tmp_path, nodes, 8000.0, **IMAGE, where=np.array([1])) == {}  # 4 times 8000


def test_layer_norm_is_float32_inside_by_its_definition(tmp_path: Path) -> None:
    more = {"scale": np.ones(64, np.float32)}
    assert kept(tmp_path, [("LayerNormalization", "x scale", "y", {"epsilon": 1e-12})], 8000.0, **more) == {}
    found = kept(tmp_path, [("LayerNormalization", "x scale", "y", {"stash_type": 16})], 8000.0, **more)
    assert found == {"y": "its sum may reach 5.12e+05 before it is divided or rooted"}


def test_an_epsilon_in_an_attribute(tmp_path: Path) -> None:
    nodes = [*SPREAD, ("InstanceNormalization", "wide scale bias", "y", {"epsilon": 1e-12})]
    assert kept(tmp_path, nodes, 1.0, **IMAGE, **SCALE) == {"y": "its epsilon 1e-12 would become another number"}


@pytest.mark.parametrize(
    "way",
    [
        [("Add", "x many", "y")],
        [("Identity", "one", "copy"), ("Add", "x copy", "y")],
        [("Expand", "one wanted", "spread"), ("Add", "x spread", "y")],
        [("Constant", "", "number", {"value_float": 1e-12}), ("Add", "x number", "y")],
    ],
)
def test_an_epsilon_in_every_form(tmp_path: Path, way: list[Any]) -> None:
    more = {"one": np.float32(1e-12), "many": np.full(64, 1e-12, np.float32), "wanted": np.array([64])}
    assert kept(tmp_path, way, 1.0, **more)["y"] == "the constant 1e-12 would become another number"


def test_values_too_small_for_float16(tmp_path: Path) -> None:
    ramp = np.linspace(1e-6, 2e-6, 64).astype(np.float32)
    found = kept(tmp_path, [("Mul", "x ramp", "small"), ("Exp", "small", "y")], ramp=ramp)
    assert list(found) == ["small", "y"]
    assert all(reason.startswith("small only reaches 5") and "few digits" in reason for reason in found.values())


def test_small_divisors_among_large_ones(tmp_path: Path) -> None:
    ramp = np.logspace(-7, 0, 64).astype(np.float32)
    found = kept(tmp_path, [("Sigmoid", "x", "s"), ("Mul", "s ramp", "product"), ("Sqrt", "product", "y")], ramp=ramp)
    assert list(found) == ["product", "y"]
    assert all(reason.startswith("product, which something is divided by, comes") for reason in found.values())


def test_the_layers_are_listed_and_the_graph_is_right(tmp_path: Path) -> None:
    graph = graphs.make(NORM, {"x": ("N", 64)}, ["y"], {"axes": AXES, "epsilon": np.float32(1e-12)}, opset=18)
    asked = request(tmp_path, graph, 100.0)
    artifact = load_target("trt").build(asked)
    assert artifact.settings["float32_layers"] == [
        {
            "name": "mean",
            "operator": "ReduceMean",
            "reason": SUM,
        },
        {"name": "sum", "operator": "Add", "reason": "the constant 1e-12 would become another number"},
    ]
    first, second = artifact.notes
    assert first.startswith(
        "2 layers kept in float32, since float16 cannot hold their numbers: mean (its sum may reach"
    )
    assert second.startswith("the float16 graph was checked operator by operator in 1 cases: ")
    large = {"x": np.full((2, 64), 100.0, np.float32)}
    (wrong,) = graphs.run(asked.folder / "model.onnx", large, optimised=False)
    np.testing.assert_allclose(wrong, 1.0, rtol=1e-2)
    assert json.loads((asked.folder / "recipe.json").read_text(encoding="utf-8"))["precision"] == "float16"


@pytest.mark.parametrize("route", ["recipe", "engine"])
def test_a_float16_graph_that_is_not_right_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, route: str
) -> None:
    import onnx

    graph = graphs.make([("Add", "x c", "y")], {"x": ("N", 64)}, ["y"], {"c": np.float32(1)})

    def wrong(request: Any, source: Path, to: Path) -> Half:
        del request
        spoiled = onnx.load(str(source))
        spoiled.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.float32(2), "c"))
        onnx.save(spoiled, str(to))
        return Half((), ())

    monkeypatch.setattr(trt_precision, "to_float16", wrong)
    with pytest.raises(StageError) as caught:
        load_target("trt").build(replace(request(tmp_path, graph), route=route))
    assert str(caught.value) == (
        "the float16 graph is not right in case sample0: y: error 1 (limit 0.05), rms 1 (limit 0.05); use float32"
    )


def test_without_a_case_nothing_is_checked_and_nothing_is_right(tmp_path: Path) -> None:
    graph = graphs.make([("Relu", "x", "y")], {"x": ("N", 64)}, ["y"], {})
    with pytest.raises(StageError, match="could not be checked, since there is not one case"):
        load_target("trt").build(replace(request(tmp_path, graph), settings={"limits": {}}))


def test_numbers_in_short_constants_become_float16(tmp_path: Path) -> None:
    nodes = [
        ("Constant", "", "half", {"value_float": 0.5}),
        ("Constant", "", "row", {"value_floats": [1.0] * 64}),
        ("Mul", "x half", "part"),
        ("Add", "part row", "y"),
    ]
    graph = graphs.make(nodes, {"x": ("N", 64)}, ["y"], {}, opset=18)
    asked = request(tmp_path, graph)
    load_target("trt").build(asked)
    (value,) = graphs.run(asked.folder / "model.onnx", {"x": np.full((1, 64), 4.0, np.float32)})
    np.testing.assert_array_equal(value, 3.0)


def test_the_file_is_in_the_order_of_computation(tmp_path: Path) -> None:
    import onnx

    graph = graphs.make(NORM, {"x": ("N", 64)}, ["y"], {"axes": AXES, "epsilon": np.float32(1e-12)}, opset=18)
    asked = request(tmp_path, graph)
    load_target("trt").build(asked)
    onnx.checker.check_model(onnx.load(asked.folder / "model.onnx"), full_check=True)


def test_values_between_operators_are_rounded(tmp_path: Path) -> None:
    """2048 + 1 is 2048 in float16; onnxruntime as a whole gives 1 for what is left of it."""
    graph = graphs.make(
        [("Exp", "x", "e"), ("Add", "e big", "sum"), ("Sub", "sum big", "y")],
        {"x": ("N", 64)},
        ["y"],
        {"big": np.float32(2048)},
    )
    with pytest.raises(StageError) as caught:
        load_target("trt").build(request(tmp_path, graph))
    assert str(caught.value).startswith("the float16 graph is not right in case sample0: y: error ")

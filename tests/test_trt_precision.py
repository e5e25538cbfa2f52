"""The graph that TensorRT gets: its precision is written in, and int8 is checked before it goes into a recipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import graphs

from convert.errors import StageError
from convert.records import Artifact, Quantization
from convert.targets import load_target, onnx_quant_write
from convert.targets.base import BuildRequest
from convert.targets.trt_host.compare import compare

pytestmark = pytest.mark.toolkit


def recipe(place: Path, precision: str, **more: Any) -> tuple[BuildRequest, Artifact]:
    limits = {"sample0": {"y": {"max_error": 1.0, "rms_error": 1.0}}}
    request = graphs.request(place, graphs.residual(), "trt", precision, "recipe", settings={"limits": limits}, **more)
    return request, load_target("trt").build(request)


def wrongs(got: Any, golden: Any, limits: Any) -> list[str]:
    return [one.wrong for one in compare(got, golden, limits) if one.wrong]


def kinds(folder: Path) -> list[str]:
    import onnx

    return [node.op_type for node in onnx.load(str(folder / "model.onnx")).graph.node]


def test_float16_stands_in_the_graph(tmp_path: Path) -> None:
    request, artifact = recipe(tmp_path, "float16", calibration=None)
    assert kinds(request.folder).count("Cast") == 2
    assert (artifact.precision, artifact.operators) == ("float16", None)


def test_int8_stands_in_the_graph_and_its_recipe_has_real_inputs(tmp_path: Path) -> None:
    request, artifact = recipe(tmp_path, "int8")
    assert kinds(request.folder).count("QuantizeLinear") == 3
    assert artifact.operators is not None
    assert artifact.operators.integer == {"Conv": 2, "Gemm": 1}
    assert artifact.notes[0].startswith("the QDQ graph was checked on 2 real batches by onnxruntime: SQNR ")
    said = json.loads((request.folder / "recipe.json").read_text(encoding="utf-8"))
    assert [case["name"] for case in said["cases"]] == ["sample0", "calibration0"]
    for case in said["cases"]:
        with np.load(request.folder / "golden" / case["file"]) as golden:
            wanted = golden["out:y"]
            limit = case["limits"]["y"]["rms_error"]
            assert limit == pytest.approx(np.sqrt(np.mean(wanted.astype(float) ** 2)) * 10 ** (-15 / 20))
            (got,) = graphs.run(request.folder / "model.onnx", {"x": golden["in:x"]}, optimised=False)
            assert wrongs({"y": got}, golden, case["limits"]) == []
            (wrong,) = wrongs({"y": got + np.float32(2 * limit)}, golden, case["limits"])
            assert wrong.startswith("y: error ")


def test_a_graph_that_is_wrong_reaches_no_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = onnx_quant_write.rounded
    monkeypatch.setattr(onnx_quant_write, "rounded", lambda value, *rest: -right(value, *rest))
    with pytest.raises(
        StageError, match=r"output y of the int8 graph has an SQNR of -?\d+\.\d dB on real inputs, and 15"
    ):
        recipe(tmp_path, "int8")


def test_the_asked_sqnr_holds(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"and 60 are wanted; try another --range, more calibration data, or fl"):
        recipe(tmp_path, "int8", quantization=Quantization(least_sqnr=60.0))


def test_int8_without_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="int8 needs ranges and there is no calibration data"):
        recipe(tmp_path, "int8", calibration=None)


def test_integers_out_must_agree_as_often_as_the_limit_says() -> None:
    golden = {"out:y": np.arange(10)}
    got = {"y": np.where(np.arange(10) < 9, np.arange(10), 0)}
    assert wrongs(got, golden, {"y": {"agreement": 0.9}}) == []
    assert wrongs(got, golden, {"y": {"agreement": 0.95}}) == ["y: 90% of the integers agree, 95% must"]
    assert wrongs(got, golden, {"y": {"max_error": 0.0}}) == ["y: 90% of the integers agree, 100% must"]

"""What a recipe carries to a GPU host: the GPU's identity, reasons out of the log, the folder, the comparison."""

from __future__ import annotations

import ctypes.util
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convert.targets.trt_host.compare import compare
from convert.targets.trt_host.device import NoGpu, gpu_here, mismatch, why_no_gpu
from convert.targets.trt_host.folder import BadRecipe, open_recipe, sha256_of
from convert.targets.trt_host.inspection import summarise
from convert.targets.trt_host.logs import reason_in
from convert.targets.trt_host.settings import EngineSettings, settings_from
from convert.targets.trt_host.timing import TimingCache

GPU = {
    "name": "A",
    "compute_capability": "8.6",
    "driver": "570.86.15",
    "cuda": "12.8",
    "tensorrt": "11.4.0.1",
    "memory_mib": 8192,
}
NEXT = "; build it here from its recipe"


@pytest.mark.parametrize(
    ("changes", "hardware", "flags", "wrong"),
    [
        ({}, "none", (), ""),
        ({"memory_mib": 4096, "driver": "580.1", "cuda": "13.0"}, "none", (), ""),
        ({"name": "B"}, "none", (), "it is for A, not B"),
        ({"name": "B"}, "same-compute-capability", (), ""),
        ({"compute_capability": "8.9"}, "none", (), "it is for compute capability 8.6, not 8.9"),
        ({"compute_capability": "8.9"}, "same-compute-capability", (), "it is for compute capability 8.6, not 8.9"),
        ({"compute_capability": "12.0", "name": "B"}, "ampere-plus", (), ""),
        ({"compute_capability": "7.5"}, "ampere-plus", (), "it is for compute capability 8.0 and newer, not 7.5"),
        ({"tensorrt": "11.5.0.2"}, "none", (), "TensorRT 11.4.0.1 made it, and 11.5.0.2 is here"),
        ({"tensorrt": "11.5.0.2"}, "none", ("version-compatible",), ""),
        ({"tensorrt": "11.3.0.2"}, "none", ("version-compatible",), "TensorRT 11.4.0.1 made it, and 11.3.0.2 is here"),
        ({"tensorrt": "12.0.0"}, "none", ("version-compatible",), "TensorRT 11.4.0.1 made it, and 12.0.0 is here"),
        ({"driver": "565.9"}, "none", (), "the NVIDIA driver is 565.9, older than 570.86.15"),
        ({"driver": ""}, "none", (), "the NVIDIA driver is not known, older than 570.86.15"),
        ({"cuda": "12.4"}, "none", (), "the CUDA version of the driver is 12.4, older than 12.8"),
    ],
)
def test_an_engine_is_for_one_host(changes: dict[str, Any], hardware: str, flags: tuple[str, ...], wrong: str) -> None:
    said = mismatch(GPU, GPU | changes, hardware, flags)
    assert said == (f"this engine was not built for this host: {wrong}{NEXT}" if wrong else "")


def test_where_there_is_no_driver_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: "/nowhere/libcuda.so.1")
    assert why_no_gpu() == "this host has no NVIDIA driver (libcuda.so.1 is not there)"
    with pytest.raises(NoGpu, match="no NVIDIA driver"):
        gpu_here("11.4")


def test_the_reason_is_the_cause_and_not_what_followed() -> None:
    cause = (
        "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (Dimension mismatch for tensor x and "
        "profile 0. At dimension axis 1, profile has min=2, opt=2, max=2 but tensor has 1. In validate at "
        "/_src/a/network.cpp:4054)"
    )
    driver = (
        "[checkMacros.cpp::catchCudaError::250] Error Code 1: Cuda Runtime (In catchCudaError at /_src/b.cpp:250 "
        "(cudaError 35: CUDA driver version is insufficient for CUDA runtime version))"
    )
    after = (
        "IBuilderConfig::addOptimizationProfile: Error Code 3: API Usage Error (Parameter check failed, condition: "
        "profile->isValid().  In addOptimizationProfile at /_src/c.cpp:569)"
    )
    said = (
        "Dimension mismatch for tensor x and profile 0. At dimension axis 1, profile has min=2, opt=2, max=2 but "
        "tensor has 1"
    )
    assert reason_in([driver, after, cause]) == said
    assert reason_in([after]) == "Parameter check failed, condition: profile->isValid()"
    assert "insufficient" in reason_in([driver])
    assert reason_in(["a text of\n another form"]) == "a text of another form"
    assert reason_in([]) == ""


def test_an_engine_is_counted() -> None:
    layers = [
        {"Outputs": [{"Format/Datatype": "Row major linear FP32"}], "TacticName": "sgemm"},
        {"Outputs": [{"Format/Datatype": "Row major linear FP32"}], "TacticName": "sgemm"},
        {"Outputs": [{"Format/Datatype": "Row major Int8"}], "TacticName": ""},
        {"Outputs": []},
    ]
    assert summarise(json.dumps({"Layers": layers, "Bindings": ["x"]})) == {
        "layers": 4,
        "precisions": {"Row major linear FP32": 2, "Row major Int8": 1, "not said": 1},
        "tactics": {"sgemm": 2},
    }
    # Without detailed verbosity layers are names.
    assert summarise('{"Layers": ["a", "b"]}') == {"layers": 2, "precisions": {}, "tactics": {}}


def test_settings_come_out_of_a_recipe() -> None:
    plain = {"workspace": 5, "hardware": "ampere-plus", "flags": ["refit"], "gpus": ["sm86"]}
    assert settings_from(plain) == EngineSettings(5, "ampere-plus", ("refit",))


class Config:
    """As much of a builder configuration as the timing cache speaks to."""

    def __init__(self, takes: bool = True) -> None:
        self.takes = takes
        self.given: list[bytes] = []
        self.cache: Any = None

    def create_timing_cache(self, data: bytes) -> Any:
        self.given.append(data)
        return data

    def set_timing_cache(self, cache: Any, ignore_mismatch: bool) -> bool:
        assert not ignore_mismatch
        self.cache = cache
        return self.takes or cache == b""

    def get_timing_cache(self) -> Any:
        class Cache:
            def serialize(self) -> bytes:
                return b"measured"

        return Cache()


def test_the_timing_cache_is_of_one_gpu_driver_and_version(tmp_path: Path) -> None:
    cache = TimingCache(tmp_path / "new", GPU)
    cache.use(first := Config())
    assert first.given == [b""]
    cache.keep(first)
    TimingCache(tmp_path / "new", GPU | {"memory_mib": 1}).use(again := Config())
    assert again.given == [b"measured"]
    for key, value in (
        ("name", "B"),
        ("driver", "1"),
        ("tensorrt", "11.5"),
        ("cuda", "1"),
        ("compute_capability", "9.0"),
    ):
        TimingCache(tmp_path / "new", GPU | {key: value}).use(other := Config())
        assert other.given == [b""]
    cache.use(refuses := Config(takes=False))
    assert (refuses.given, refuses.cache) == ([b"measured", b""], b"")
    assert [path.name for path in (tmp_path / "new").iterdir()] == [cache.file.name]


GOLDEN: dict[str, Any] = {
    "out:y": np.array([[1.0, -2.0], [np.inf, 4.0]], np.float32),
    "out:k": np.array([1, 2, 3, 4], np.int64),
}
LIMITS = {"y": {"max_error": 0.1, "rms_error": 0.05}, "k": {"agreement": 0.75}}


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("y", GOLDEN["out:y"], ""),
        ("y", GOLDEN["out:y"] + np.float32(0.04), ""),
        ("y", GOLDEN["out:y"] + np.float32(0.06), "y: error 0.06 (limit 0.1), rms 0.06 (limit 0.05)"),
        ("y", np.array([[1.2, -2], [np.inf, 4]], np.float32), "y: error 0.2 (limit 0.1), rms 0.115 (limit 0.05)"),
        ("y", np.array([[1, -2], [-np.inf, 4]], np.float32), "y: NaN or infinity in other places than in the source"),
        ("y", np.array([[1, -2], [3, 4]], np.float32), "y: NaN or infinity in other places than in the source"),
        (
            "y",
            np.array([[1, np.nan], [np.inf, 4]], np.float32),
            "y: NaN or infinity in other places than in the source",
        ),
        ("y", GOLDEN["out:y"][0], "y: missing, or another shape or dtype than float32[2, 2]"),
        ("y", GOLDEN["out:y"].astype(np.float64), "y: missing, or another shape or dtype than float32[2, 2]"),
        ("y", None, "y: missing, or another shape or dtype than float32[2, 2]"),
        ("k", np.array([1, 2, 3, 9]), ""),
        ("k", np.array([1, 2, 9, 9]), "k: 50% of the integers agree, 75% must"),
    ],
)
def test_what_is_wrong_is_said(name: str, value: Any, wrong: str) -> None:
    right = {"y": GOLDEN["out:y"], "k": GOLDEN["out:k"]}
    given = {key: array for key, array in (right | {name: value}).items() if array is not None}
    assert [one.wrong for one in compare(given, GOLDEN, LIMITS) if one.wrong] == ([wrong] if wrong else [])


def test_the_truth_is_what_counts() -> None:
    golden = GOLDEN | {"truth:y": GOLDEN["out:y"].astype(np.float64) + 0.04}
    (one,) = compare({"y": GOLDEN["out:y"] + np.float32(0.08)}, golden, {"y": LIMITS["y"]})
    assert (one.wrong, round(one.figure, 4)) == ("", 0.04)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "recipe"
    (place / "golden").mkdir(parents=True)
    (place / "model.onnx").write_bytes(b"graph")
    arrays: dict[str, Any] = {"in:x": np.ones(2, np.float32), "out:y": np.ones(2, np.float32)}
    np.savez(place / "golden" / "a.npz", **arrays)
    write(place)
    return place


def write(place: Path, **changes: Any) -> None:
    names = ("model.onnx", "golden/a.npz")
    said: dict[str, Any] = {
        "recipe_version": 2,
        "onnx": "model.onnx",
        "inputs": ["x"],
        "cases": [{"name": "a", "file": "a.npz", "dims": {}, "limits": {}}],
        "sha256": {name: sha256_of(place / name) for name in names},
    }
    (place / "recipe.json").write_text(json.dumps(said | changes), encoding="utf-8")


def test_a_recipe_is_opened(folder: Path) -> None:
    recipe = open_recipe(folder)
    assert recipe.sha256 == sha256_of(folder / "recipe.json")
    with recipe.case("a") as golden:
        assert recipe.feeds(golden)["x"].tolist() == [1, 1]


def test_a_recipe_that_was_changed_is_refused(folder: Path) -> None:
    def refusal() -> str:
        with pytest.raises(BadRecipe) as caught:
            open_recipe(folder)
        return str(caught.value).replace(str(folder), "DIR")

    (folder / "model.onnx").write_bytes(b"another graph")
    assert refusal() == "DIR/model.onnx was changed since the recipe was made; copy the folder again"
    (folder / "model.onnx").unlink()
    assert refusal() == "DIR/model.onnx is missing since the recipe was made; copy the folder again"
    (folder / "model.onnx").write_bytes(b"graph")
    write(folder, recipe_version=1)
    assert refusal() == "DIR/recipe.json is of version 1, and 2 is read here; make the recipe anew"
    write(folder, onnx="other.onnx")
    assert refusal() == "DIR/recipe.json names other.onnx without its hash; make the recipe anew"
    (folder.parent / "secret").write_bytes(b"")
    write(folder, sha256={"../secret": sha256_of(folder.parent / "secret")})
    assert refusal() == "DIR/recipe.json names ../secret, which lies outside of its folder; do not use it"
    (folder / "recipe.json").write_text("[1", encoding="utf-8")
    assert refusal() == "DIR/recipe.json is no recipe that convert wrote; copy the folder again"
    shutil.rmtree(folder)
    assert refusal() == "DIR holds no recipe (there is no recipe.json); give the folder that convert made"

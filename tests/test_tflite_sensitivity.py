"""Which operators hurt in integers, and a network that is rescued by keeping a few of them in float."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.tflite_files import Data, outlier_net, request

from convert.errors import StageError
from convert.steps.mixed import Trial, fewest
from convert.targets.base import BuildRequest
from convert.targets.noise import noise
from convert.targets.tflite import TFLite
from convert.targets.tflite_sensitivity import measure_groups

DRAW = np.random.default_rng(5)
BATCHES = DRAW.normal(size=(20, 8, 8)).astype(np.float32)
LEAST_SQNR = 25.0


def sqnr(asked: BuildRequest) -> float:
    """Build, and compare with the float file on the calibration data."""
    target = TFLite()
    artifact = target.build(asked)
    assert asked.base is not None
    assert asked.base_folder is not None
    made = target.open(artifact, asked.folder, 1)
    base = target.open(asked.base, asked.base_folder, 1)
    got, wanted = ([session.run({"x": batch})["y"].copy() for batch in BATCHES] for session in (made, base))
    return float(-20 * math.log10(noise([{"y": one} for one in got], [{"y": one} for one in wanted])))


@pytest.mark.toolkit
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_network_with_an_outlier_layer_is_rescued_by_keeping_two(tmp_path: Path) -> None:
    asked = request(tmp_path, outlier_net(), 8, 4, Data(BATCHES))
    plain = sqnr(asked)
    assert plain < 12.0
    layers = TFLite().sensitivity(asked)
    # The layer that makes the outlier and the one that takes it; the others are far behind.
    assert {layer.name for layer in layers[:2]} == {"b", "c"}
    assert {layer.operator for layer in layers} == {"FULLY_CONNECTED"}
    assert len(layers) == 4
    assert layers[1].noise > 5 * layers[2].noise

    def attempt(kept: tuple[str, ...]) -> Trial[int]:
        value = sqnr(replace(asked, keep=kept))
        return Trial(value >= LEAST_SQNR, value, len(kept))

    result, mixed = fewest(layers, attempt)
    assert result == 2
    assert set(mixed.kept) == {"b", "c"}
    curve = dict(mixed.curve)
    assert curve[1] < LEAST_SQNR <= curve[2]


@pytest.mark.toolkit
def test_only_precisions_with_ranges_can_be_ranked(tmp_path: Path) -> None:
    with pytest.raises(StageError) as caught:
        TFLite().sensitivity(request(tmp_path, outlier_net(), 8, 4, Data(BATCHES), precision="int8-dynamic"))
    assert caught.value.reason == ("tflite cannot rank layers at precision int8-dynamic; it can at int8 and int16x8")


def measured(levels: Mapping[str, float | None], runs: list[str]) -> dict[str, float]:
    def measure(group: Sequence[str]) -> float | None:
        runs.append("".join(group))
        found = [levels[name] for name in group]
        return None if None in found else math.sqrt(sum((level or 0.0) ** 2 for level in found))

    return measure_groups(list(levels), measure, 16)


def test_few_layers_are_measured_one_by_one() -> None:
    runs: list[str] = []
    levels: dict[str, float | None] = {"a": 0.5, "b": None, "c": 0.25}
    assert measured(levels, runs) == {"a": 0.5, "c": 0.25}
    assert sorted(runs) == ["a", "b", "c"]


def test_of_many_layers_the_worst_are_found_in_few_runs() -> None:
    runs: list[str] = []
    names = [chr(ord("A") + place) for place in range(58)]
    levels: dict[str, float | None] = {**dict.fromkeys(names, 0.01), "k": 3.0}
    found = measured(levels, runs)
    assert len(runs) <= 17
    assert found["k"] == 3.0
    assert sorted(found) == sorted(names)
    assert max(level for name, level in found.items() if name != "k") == pytest.approx(0.01)


def test_noise_is_that_of_the_worst_output() -> None:
    wanted = [{"a": np.array([3.0, 4.0]), "b": np.array([1.0])}, {"a": np.array([0.0]), "b": np.array([1.0])}]
    got = [{"a": np.array([3.0, 4.5]), "b": np.array([1.0])}, {"a": np.array([0.0]), "b": np.array([1.2])}]
    assert noise(got, wanted) == pytest.approx(math.sqrt(0.04 / 2))
    assert noise(wanted, wanted) == 0.0
    assert noise([{"a": np.array([np.nan])}], [{"a": np.array([1.0])}]) == math.inf
    assert noise([{"a": np.array([0.1])}], [{"a": np.array([0.0])}]) == math.inf
    assert noise([{"a": np.array([1, 2, 3, 4])}], [{"a": np.array([1, 2, 3, 5])}]) == 0.25

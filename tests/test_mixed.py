"""The search for the fewest layers in float."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from convert.errors import StageError
from convert.records import Check, Layer, Mixed, Quality, Status
from convert.steps.job import Built, Job
from convert.steps.mixed import Trial, fewest, lowest_sqnr, rescue

NAMES = tuple("abcdefghijklmnop")
LAYERS = tuple(Layer(name, "CONV_2D", 1.0 / (place + 1)) for place, name in enumerate(NAMES))
Kept = tuple[str, ...]


class Gate:
    """Passes where all ``needed`` layers are kept; remembers what was tried."""

    def __init__(self, needed: str) -> None:
        self.needed = set(needed)
        self.tried: list[str] = []

    def __call__(self, kept: Kept) -> Trial[str]:
        self.tried.append("".join(kept))
        missing = len(self.needed - set(kept))
        return Trial(not missing, 30.0 - 10 * missing, "".join(kept))


@pytest.mark.parametrize(
    ("needed", "tried"),
    [
        ("a", ["a"]),
        ("ab", ["a", "ab", "b"]),
        ("b", ["a", "ab", "b"]),
        ("ae", ["a", "ab", "abcd", "abcdefgh", "abcdef", "abcde", "abce", "abe", "ae", "e"]),
        ("ce", ["a", "ab", "abcd", "abcdefgh", "abcdef", "abcde", "abce", "abe", "ace", "ce"]),
    ],
)
def test_the_fewest_are_found(needed: str, tried: list[str]) -> None:
    gate = Gate(needed)
    result, mixed = fewest(LAYERS, gate)
    assert (result, "".join(mixed.kept)) == (needed, needed)
    assert gate.tried == tried
    assert mixed.layers == LAYERS
    assert mixed.curve[-1][0] == max(map(len, gate.tried))


def test_curve_has_every_artifact_that_was_tried() -> None:
    result, mixed = fewest(LAYERS, Gate("abc"))
    assert result == "abc"
    assert mixed.curve == ((1, 10.0), (2, 20.0), (3, 30.0), (4, 30.0))


def test_many_kept_layers_are_not_tried_without_each() -> None:
    gate = Gate("l")
    result, mixed = fewest(LAYERS, gate)
    assert result == "".join(NAMES[:12]) == "".join(mixed.kept)
    assert [len(one) for one in gate.tried] == [1, 2, 4, 8, 15, 11, 13, 12]


def test_nothing_is_kept_where_nothing_helps() -> None:
    gate = Gate("z")
    result, mixed = fewest(LAYERS, gate)
    assert (result, mixed.kept) == (None, ())
    # One layer at least must stay an integer.
    assert [len(one) for one in gate.tried] == [1, 2, 4, 8, 15]


@pytest.mark.parametrize("layers", [(), LAYERS[:1]])
def test_a_single_layer_has_nothing_to_keep(layers: tuple[Layer, ...]) -> None:
    result, mixed = fewest(layers, Gate(""))
    assert (result, mixed.kept, mixed.curve) == (None, (), ())


def test_what_does_not_run_is_on_the_curve() -> None:
    result, mixed = fewest(LAYERS[:3], lambda kept: Trial(False, -math.inf, kept))
    assert result is None
    assert mixed.curve == ((1, -math.inf), (2, -math.inf))


def job_in(tmp_path: Path) -> Job:
    """A job whose context knows its folder and nothing else."""
    context = SimpleNamespace(folder=tmp_path / "out", work=tmp_path / "out" / "work")
    target: Any = SimpleNamespace(name="tflite")
    golden: Any = None
    return Job(context, golden, (), "", target, "int8", lambda text: None)  # type: ignore[arg-type]


def made(job: Job, status: Status, figure: float) -> Built:
    checks = (Check("sample0", "y", "rms noise over rms", figure, 0.1, status is Status.PASSED),)
    job.final.mkdir(parents=True)
    (job.final / "model.tflite").write_text(" ".join(job.kept))
    return Built(job.outcome(status, "check", "too noisy", checks=checks), None, job.final)


def test_the_winner_takes_the_place_of_the_artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convert.steps.mixed.rank_layers", lambda job, base: LAYERS[:4])
    job = job_in(tmp_path)

    def make(one: Job, base: Built) -> Built:
        enough = {"b"} <= set(one.kept)
        return made(one, Status.PASSED if enough else Status.FAILED, 0.01 if enough else 1.0)

    failed = made(job, Status.FAILED, 2.0)
    built = rescue(job, failed, failed, make)
    assert built.outcome.status is Status.PASSED
    assert built.outcome.notes == ("1 of 4 layers stay in float: b",)
    assert built.outcome.mixed == Mixed(LAYERS[:4], ("b",), ((0, -20 * math.log10(2)), (1, 0.0), (1, 40.0), (2, 40.0)))
    assert built.folder == tmp_path / "out" / "tflite" / "int8"
    assert (built.folder / "model.tflite").read_text() == "b"


def test_without_a_winner_the_failure_says_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convert.steps.mixed.rank_layers", lambda job, base: LAYERS[:3])
    job = job_in(tmp_path)
    failed = Built(job.outcome(Status.FAILED, "check", "too noisy"))
    built = rescue(job, failed, failed, lambda one, base: made(one, Status.FAILED, 0.5))
    assert built.outcome.status is Status.FAILED
    assert built.outcome.reason == "too noisy; keeping up to 2 of 3 layers in float does not help"
    assert built.outcome.mixed is not None
    assert [number for number, _ in built.outcome.mixed.curve] == [0, 1, 2]
    assert not (tmp_path / "out" / "tflite").exists()


def test_a_target_that_ranks_nothing_fails_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(job: Job, base: Built) -> tuple[Layer, ...]:
        raise StageError("trt cannot keep single layers in float at precision int8")

    monkeypatch.setattr("convert.steps.mixed.rank_layers", refuse)
    job = job_in(tmp_path)
    failed = Built(job.outcome(Status.FAILED, "check", "too noisy"))
    built = rescue(job, failed, failed, lambda one, base: made(one, Status.PASSED, 0.5))
    assert (built.outcome.status, built.outcome.reason) == (Status.FAILED, "too noisy")
    assert built.outcome.notes == (
        "no layers could be kept in float: trt cannot keep single layers in float at precision int8",
    )


def test_lowest_ratio_comes_from_quality_or_from_the_noise_checks(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    checks = (Check("s", "y", "noise", 0.1, 1.0, True), Check("s", "z", "noise", 0.01, 1.0, True))
    outcome = job.outcome(Status.PASSED, "", "", checks=(*checks, Check("s", "y", "shape", 5.0, 9.0, True)))
    assert lowest_sqnr(outcome) == pytest.approx(20.0)
    quality = (Quality("y", 8, 31.5, 1.0, 0.0), Quality("z", 8, 28.0, 1.0, 0.0))
    assert lowest_sqnr(replace(outcome, quality=quality)) == 28.0

"""One verdict from many checks: passed only when everything was checked and everything passed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from convert.records import Case, Check, Dim, Floor, Golden, InputSpec, Kind, OutputSpec
from convert.validators.numbers import compare_case, failed_case
from convert.validators.tolerance import Typical
from convert.validators.verdict import Verdict, verdict

Arrays = dict[str, Any]
FLOOR = Floor(1.0, 2.0**-16, 2.0**-18)
CASES = tuple(Case(name, "draw", {"N": size}, size, f"{name}.npz", {"y": FLOOR}) for name, size in (("a", 1), ("b", 4)))
GOLDEN = Golden(
    Kind.EXPORTED,
    "m",
    1,
    4,
    (InputSpec("x", "float32", ("N",)),),
    (Dim("N", 1, 4, 16),),
    (OutputSpec("y", "float32", ("N",)), OutputSpec("i", "int64", ("N",))),
    CASES,
    "float64",
)


def check(case: str, output: str, figure: float = 1.0, limit: float = 4.0, passed: bool = True, **more: Any) -> Check:
    """A check that passed unless said otherwise."""
    return Check(case, output, "rule", figure, limit, passed, **more)


GOOD = [check(case, output) for case in "ab" for output in "yi"]


def test_everything_checked_and_passed() -> None:
    worst = check("b", "y", 3.0)
    assert verdict([*GOOD[:2], worst, GOOD[3]], GOLDEN) == Verdict(True, "", worst)


def test_the_worst_check_is_the_nearest_to_its_limit() -> None:
    near = check("a", "i", 0.9, 1.0)
    others = [check("a", "y", 1000.0, 4000.0), check("b", "y", 0.0, 0.0), check("b", "i", 1e-9, 1e-6)]
    assert verdict([near, *others], GOLDEN) == Verdict(True, "", near)
    odd = check("b", "i", 1.0, 0.0)
    assert verdict([near, *others, odd], GOLDEN).worst == odd


@pytest.mark.parametrize("left_out", range(4))
def test_a_check_that_is_not_there_is_a_failure(left_out: int) -> None:
    lost = GOOD[left_out]
    assert verdict(GOOD[:left_out] + GOOD[left_out + 1 :], GOLDEN) == Verdict(
        False, f"output {lost.output} was not checked in case {lost.case}", None
    )


def test_no_checks_are_a_failure() -> None:
    assert verdict([], GOLDEN) == Verdict(False, "output y was not checked in case a", None)


@pytest.mark.parametrize("golden", [replace(GOLDEN, cases=()), replace(GOLDEN, outputs=())])
def test_nothing_to_check_proves_nothing(golden: Golden) -> None:
    assert verdict([], golden).passed is False
    assert verdict(GOOD, golden).passed is False


def test_leaving_out_every_case_proves_nothing() -> None:
    assert verdict([], GOLDEN, frozenset({"a", "b"})).passed is False
    assert verdict(GOOD, GOLDEN, frozenset({"a", "b"})).passed is False


def test_the_same_check_twice_does_not_stand_for_another() -> None:
    assert verdict([GOOD[0], GOOD[0], *GOOD[2:]], GOLDEN).reason == "output i was not checked in case a"


def test_a_skipped_case_need_not_be_checked_but_must_not_fail() -> None:
    skipped = frozenset({"b"})
    assert verdict(GOOD[:2], GOLDEN, skipped).passed is True
    assert verdict(GOOD[:1], GOLDEN, skipped).reason == "output i was not checked in case a"
    assert verdict([*GOOD[:2], check("b", "y", passed=False)], GOLDEN, skipped).passed is False


@pytest.mark.parametrize("passed", [False, None, 0, 1, "True", np.True_])
def test_nothing_but_true_passes(passed: Any) -> None:
    assert verdict([*GOOD[:3], check("b", "i", passed=passed)], GOLDEN).passed is False


def test_the_reason_names_the_worst_failure_its_sizes_and_how_many() -> None:
    worst = check("b", "y", 9.0, 1.0, passed=False, dims={"N": 4, "T": 2}, detail="off by 9")
    bad = [check("a", "y", 8.0, 1.0, passed=False), check("b", "i", 7.0, 1.0, passed=False), worst]
    assert verdict([*GOOD, *bad], GOLDEN) == Verdict(
        False, "output y in case b (N=4, T=2): off by 9 (failed in 2 of 2 cases)", worst
    )
    assert verdict([worst], GOLDEN, frozenset({"a"})).reason == (
        "output y in case b (N=4, T=2): off by 9 (failed in 1 of 1 cases)"
    )


def test_what_could_not_be_measured_is_the_worst() -> None:
    lost = check("a", "y", math.inf, 0.0, passed=False, detail="the output is missing")
    assert verdict([check("b", "y", 1e9, 1.0, passed=False), lost], GOLDEN) == Verdict(
        False, "output y in case a: the output is missing (failed in 2 of 2 cases)", lost
    )
    silent = check("a", "i", 0.0, 0.0, passed=False)
    assert verdict([check("b", "y", 1e9, 1.0, passed=False), silent], GOLDEN).worst == silent
    assert verdict([silent], GOLDEN).reason == "output i in case a: not passed (failed in 1 of 2 cases)"


def test_a_case_that_did_not_run_names_the_case_alone() -> None:
    failed = failed_case(CASES[1], "boom")
    assert failed == Check("b", "", "runs at every shape", math.inf, 0.0, False, {"N": 4}, detail="boom")
    assert verdict([failed], GOLDEN).reason == "case b (N=4): boom (failed in 1 of 2 cases)"


EXPECTED: Arrays = {"y": np.array([1, 0, 0, 0], np.float32), "i": np.array([3, 1, 2, 0])}


def test_every_output_has_its_check_and_one_too_many_is_a_failed_one() -> None:
    usual = {"y": Typical(1.0, None, None, None)}
    checks = compare_case(CASES[0], "float32", 8.0, EXPECTED, {}, {"z": 1, "y": EXPECTED["y"], "extra": None}, usual)
    assert [(check.output, check.passed) for check in checks[:2]] == [("y", True), ("i", False)]
    assert checks[1].detail == "the output is missing"
    rule, detail = "same outputs as the source", "the source has no output extra"
    assert checks[2:] == [Check("a", "extra", rule, math.inf, 0.0, False, {"N": 1}, detail=detail)]


def test_a_floating_output_without_a_floor_is_never_waved_through() -> None:
    usual = {"y": Typical(1.0, None, None, None)}
    with pytest.raises(KeyError, match="y"):
        compare_case(replace(CASES[0], floors={}), "float32", 8.0, EXPECTED, {}, EXPECTED, usual)


def judge(spoil: Callable[[Arrays], object], at: str) -> Verdict:
    """The verdict on an artifact that is right but for what ``spoil`` does in the case ``at``."""
    checks: list[Check] = []
    for case in CASES:
        actual = {name: value.copy() for name, value in EXPECTED.items()}
        if case.name == at:
            spoil(actual)
        usual = {"y": Typical(1.0, 2.0**-16, 2.0**-18, None)}
        checks += compare_case(case, "float32", 8.0, EXPECTED, {}, actual, usual)
    return verdict(checks, GOLDEN)


def put(name: str, value: Any) -> Callable[[Arrays], object]:
    """Replace one output."""
    return lambda actual: actual.update({name: value})


SPOILT = {
    "missing": lambda actual: actual.pop("i"),
    "nothing": lambda actual: actual.clear(),
    "none": put("y", None),
    "extra": put("z", np.zeros(1)),
    "renamed": lambda actual: actual.update(w=actual.pop("y")),
    "swapped": lambda actual: actual.update(y=actual["i"], i=actual["y"]),
    "dtype": put("y", EXPECTED["y"].astype(np.float64)),
    "index dtype": put("i", EXPECTED["i"].astype(np.int32)),
    "shape": put("y", EXPECTED["y"][None]),
    "first element only": put("y", EXPECTED["y"][:1]),
    "scalar": put("i", 3),
    "nan": put("y", np.array([1, 0, 0, np.nan], np.float32)),
    "all nan": put("y", np.full(4, np.nan, np.float32)),
    "infinity": put("y", np.array([np.inf, 0, 0, 0], np.float32)),
    "off": put("y", np.array([1, 2e-4, 0, 0], np.float32)),
    "off everywhere": put("y", EXPECTED["y"] + np.float32(1e-4)),
    "zeros": put("y", np.zeros(4, np.float32)),
    "permuted": put("y", EXPECTED["y"][::-1]),
    "index off by one": put("i", EXPECTED["i"] + np.array([0, 0, 0, 1])),
}


@pytest.mark.parametrize("at", ["a", "b"])
@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_artifact_never_passes(how: str, at: str) -> None:
    judged = judge(SPOILT[how], at)
    assert judged.passed is False
    assert f"case {at}" in judged.reason
    assert "(failed in 1 of 2 cases)" in judged.reason


def test_the_same_artifact_unspoilt_passes() -> None:
    judged = judge(lambda actual: None, "a")
    assert (judged.passed, judged.reason) == (True, "")
    assert judged.worst is not None

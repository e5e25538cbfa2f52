"""What an artifact gave against what the source gave: every doubt is a failed check."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from convert.records import Case, Check, Floor
from convert.validators.numbers import compare_case, failed_case, rms_of
from convert.validators.tolerance import Typical

Array = np.ndarray[Any, Any]
NAN, INF = math.nan, math.inf
RULE = "8 noise floors, at least 8 ulp and at most 0.001 of the largest output"
SAME = "same count, dtype and shape as the source"
EXACT = "equal, element by element"
EITHER = "equal, element by element (to the source or, where rounding decides, to its float64 run)"


def f32(*values: float) -> Array:
    """A float32 vector."""
    return np.array(values, np.float32)


def compare(
    expected: dict[str, Any],
    actual: dict[str, Any],
    truths: dict[str, Any] | None = None,
    floor: Floor = Floor(1.0, 2.0**-16, 2.0**-18),  # noqa: B008  (frozen)
    precision: str = "float32",
) -> list[Check]:
    """``compare_case`` with one floor for every output and 8 floors allowed: 2**-13 at most, 2**-15 in the mean."""
    case = Case("c", "draw", {"N": 2}, 0, "c.npz", dict.fromkeys(expected, floor))
    usual = dict.fromkeys(expected, Typical(1.0, 0.0, 0.0, 0.0))
    return compare_case(case, precision, 8.0, expected, truths or {}, actual, usual)


def one(wanted: Array, got: Any, truth: Any = None, **more: Any) -> Check:
    """The only check of an artifact with the output ``y``."""
    (check,) = compare({"y": wanted}, {"y": got}, {} if truth is None else {"y": truth}, **more)
    return check


WANTED = np.concatenate([f32(1.0), np.zeros(63, np.float32)])


def off(at: int | slice, error: float) -> Array:
    """``WANTED`` with ``error`` added."""
    got = WANTED.copy()
    got[at] += np.float32(error)
    return got


@pytest.mark.parametrize("got", [WANTED, off(5, 2.0**-13), off(5, -(2.0**-13)), off(slice(64), 2.0**-15)])
def test_up_to_the_limit_it_passes(got: Array) -> None:
    gap = np.abs(got.astype(np.float64) - WANTED)
    worst, rms = float(gap.max()), float(np.sqrt((gap**2).mean()))
    assert one(WANTED, got) == Check("c", "y", RULE, worst, 2.0**-13, True, {"N": 2}, rms, worst * 2**16, "")


def test_just_over_the_largest_error_it_fails() -> None:
    error = float(np.nextafter(np.float32(2.0**-13), np.float32(1)))
    assert one(WANTED, off(5, error)) == Check(
        "c",
        "y",
        RULE,
        error,
        2.0**-13,
        False,
        {"N": 2},
        error / 8,
        error * 2**16,
        "largest error 0.000122 is over the limit 0.000122",
    )


def test_a_wide_spread_error_is_caught_by_its_mean() -> None:
    check = one(WANTED, off(slice(64), 2.0**-14))
    assert (check.passed, check.figure, check.limit, check.rms) == (False, 2.0**-14, 2.0**-13, 2.0**-14)
    assert check.detail == "root-mean-square error 6.1e-05 is over the limit 3.05e-05"


def test_a_floor_of_zero_allows_a_few_units_in_the_last_place() -> None:
    none = Floor(1.0, 0.0, 0.0)
    assert one(WANTED, off(5, 2.0**-20), floor=none).passed is True
    assert one(WANTED, off(5, 1.01 * 2.0**-20), floor=none).passed is False
    assert one(WANTED, WANTED, floor=none).floors is None


def test_a_noisy_source_allows_no_more_than_a_thousandth() -> None:
    noisy = Floor(1.0, 0.5, 0.5)
    assert one(WANTED, off(5, 0.000999), floor=noisy).passed is True
    assert one(WANTED, off(5, 0.001001), floor=noisy).passed is False


def test_without_a_truth_a_constant_share_is_allowed() -> None:
    blind = Floor(1.0, None, None)
    assert one(WANTED, off(5, 1.99e-5), floor=blind).passed is True
    check = one(WANTED, off(5, 2.01e-5), floor=blind)
    assert (check.passed, check.floors, check.limit) == (False, None, 2e-5)
    assert check.rule == "2e-05 of the largest output (no float64 truth)"


def test_an_output_of_zeros_must_stay_zeros() -> None:
    zeros, flat = np.zeros(4, np.float32), Floor(0.0, 0.0, 0.0)
    assert one(zeros, zeros, floor=flat).passed is True
    assert one(zeros, f32(0, 0, 0, 1e-11), floor=flat).passed is False
    assert one(zeros, f32(0, -0.0, 0, 0), floor=flat).passed is True


def test_the_error_is_the_distance_from_the_truth_and_not_from_the_source() -> None:
    wanted, truth = f32(1, 2), np.array([1 + 2.0**-16, 2], np.float64)
    assert one(wanted, truth.astype(np.float32), truth).figure == 0.0
    assert one(wanted, wanted, truth).figure == 2.0**-16
    assert one(wanted, f32(1 - 2.0**-13, 2), truth).passed is False


def test_where_the_truth_is_not_finite_the_source_stands_in() -> None:
    wanted, truth = f32(1, 0.5), np.array([1, NAN], np.float64)
    assert one(wanted, wanted, truth).passed is True
    check = one(wanted, f32(1, 0.75), truth)
    assert (check.passed, check.figure) == (False, 0.25)


@pytest.mark.parametrize(
    ("wanted", "got", "detail"),
    [
        (f32(1, NAN), f32(1, 1), "NaN stands in other places than in the source (1 of 2 elements differ)"),
        (f32(1, 0), f32(NAN, NAN), "NaN stands in other places than in the source (2 of 2 elements differ)"),
        (f32(NAN, 0), f32(0, NAN), "NaN stands in other places than in the source (2 of 2 elements differ)"),
        (f32(1, 0), f32(1, INF), "+infinity stands in other places than in the source (1 of 2 elements differ)"),
        (f32(1, INF), f32(1, 9), "+infinity stands in other places than in the source (1 of 2 elements differ)"),
        (f32(1, 0), f32(1, -INF), "-infinity stands in other places than in the source (1 of 2 elements differ)"),
        (f32(1, -INF), f32(1, -9), "-infinity stands in other places than in the source (1 of 2 elements differ)"),
        (f32(1, INF), f32(1, -INF), "+infinity stands in other places than in the source (1 of 2 elements differ)"),
        (f32(1, INF), f32(1, NAN), "NaN stands in other places than in the source (1 of 2 elements differ)"),
    ],
)
def test_nan_and_infinity_stand_where_they_stand_in_the_source(wanted: Array, got: Array, detail: str) -> None:
    assert (one(wanted, got).passed, one(wanted, got).detail) == (False, detail)
    assert one(wanted, wanted).passed is True
    assert one(got, got).passed is True


def test_an_overflow_of_the_source_stays_one() -> None:
    wanted, truth = f32(1, INF), np.array([1, 1e39], np.float64)
    assert one(wanted, wanted, truth).passed is True
    assert one(wanted, f32(1, 3e38), truth).passed is False


HALF = Floor(1.0, 0.0, 0.0, 2.0**-6, 2.0**-6)


@pytest.mark.parametrize(("error", "passed"), [(0.0, True), (0.0099, True), (0.0101, False), (0.03, False)])
def test_float16_must_have_a_signal_to_noise_ratio_of_40_db(error: float, passed: bool) -> None:
    wanted = np.ones(64, np.float32)
    assert one(wanted, wanted + np.float32(error), floor=HALF, precision="float16").passed is passed


@pytest.mark.parametrize(("error", "passed"), [(3 * 2.0**-6, True), (3.01 * 2.0**-6, False)])
def test_float16_may_be_off_by_three_of_the_sources_own(error: float, passed: bool) -> None:
    wanted = np.ones(64, np.float32)
    got = wanted.copy()
    got[3] += np.float32(error)
    check = one(wanted, got, floor=HALF, precision="float16")
    assert (check.passed, check.limit) == (passed, 3 * 2.0**-6)


INTS = np.array([1, -2, 2**53 + 1], np.int64)


@pytest.mark.parametrize(
    ("wanted", "got", "truth", "wrong", "rule"),
    [
        (INTS, INTS, None, 0, EXACT),
        (INTS, INTS + [0, 1, 0], None, 1, EXACT),
        (INTS, INTS - [0, 0, 1], None, 1, EXACT),
        (INTS, INTS + [0, 1, 0], INTS + [0, 1, 0], 0, EITHER),
        (INTS, INTS, INTS + [0, 1, 0], 0, EITHER),
        (INTS, INTS + [0, 2, 0], INTS + [0, 1, 0], 1, EITHER),
        (INTS, INTS + [1, 1, 0], INTS + [0, 1, 0], 1, EITHER),
        (INTS, INTS + [0, 1, 0], np.int64(-1), 1, EXACT),
        (np.array([True, False]), np.array([True, False]), None, 0, EXACT),
        (np.array([True, False]), np.array([False, True]), None, 2, EXACT),
        (np.array(7, np.uint8), np.array(8, np.uint8), None, 1, EXACT),
    ],
)
def test_integers_and_booleans_are_equal(wanted: Array, got: Array, truth: Any, wrong: int, rule: str) -> None:
    detail = f"{wrong} of {wanted.size} elements differ" if wrong else ""
    assert one(wanted, got, truth) == Check("c", "y", rule, wrong, 0.0, not wrong, {"N": 2}, detail=detail)


@pytest.mark.parametrize(
    ("wanted", "got", "detail"),
    [
        (f32(1, 2), None, "the output is missing"),
        (f32(1, 2), [1.0, 2.0], "the output is a list, not an array"),
        (np.array(1, np.float32), np.float32(1), "the output is a float32, not an array"),
        (f32(1, 2), np.array([1.0, 2.0]), "dtype float64 instead of float32"),
        (f32(1, 2), np.array([1, 2], np.float16), "dtype float16 instead of float32"),
        (INTS, INTS.astype(np.float64), "dtype float64 instead of int64"),
        (INTS[:2], INTS[:2].astype(np.int32), "dtype int32 instead of int64"),
        (np.array([True]), np.array([1], np.uint8), "dtype uint8 instead of bool"),
        (f32(1, 2), f32(1, 2, 3), "shape [3] instead of [2]"),
        (f32(1, 1), f32(1), "shape [1] instead of [2]"),
        (f32(1, 2), f32(1, 2)[None], "shape [1, 2] instead of [2]"),
        (np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32), "shape [3, 2] instead of [2, 3]"),
        (np.zeros((2, 3), np.float32), np.zeros((0, 3), np.float32), "shape [0, 3] instead of [2, 3]"),
    ],
)
def test_the_interface_must_be_the_sources_own(wanted: Array, got: Any, detail: str) -> None:
    assert one(wanted, got) == Check("c", "y", SAME, INF, 0.0, False, {"N": 2}, detail=detail)


def test_every_output_has_its_check_and_one_too_many_is_a_failed_one() -> None:
    expected = {"a": f32(1, 0), "b": INTS, "c": f32(1, 0)}
    checks = compare(expected, {"z": INTS, "a": f32(1, 0), "c": f32(1, 1), "extra": None})
    assert [(check.output, check.passed) for check in checks] == [
        ("a", True),
        ("b", False),
        ("c", False),
        ("extra", False),
    ]
    assert checks[1].detail == "the output is missing"
    assert checks[3] == Check(
        "c", "extra", "same outputs as the source", INF, 0.0, False, {"N": 2}, detail="the source has no output extra"
    )


def test_an_empty_output_can_be_right() -> None:
    empty = np.zeros((0, 3), np.float32)
    assert (one(empty, empty).passed, one(empty, empty).figure) == (True, 0.0)


def test_a_floating_output_without_a_floor_is_never_waved_through() -> None:
    case = Case("c", "draw", {}, 0, "c.npz")
    with pytest.raises(KeyError, match="y"):
        compare_case(case, "float32", 8.0, {"y": WANTED}, {}, {"y": WANTED}, {"y": Typical(1.0, None, None, None)})


def test_a_case_that_does_not_run_is_a_failed_one() -> None:
    case = Case("c", "draw", {"N": 3}, 0, "c.npz")
    assert failed_case(case, "boom") == Check("c", "", "runs at every shape", INF, 0.0, False, {"N": 3}, detail="boom")


@pytest.mark.parametrize(
    ("values", "rms"), [([3, 4, -5, 0], math.sqrt(12.5)), ([NAN, INF, 2], 2.0), ([NAN], 0.0), ([], 0.0), ([1e30], 1e30)]
)
def test_rms_of(values: list[float], rms: float) -> None:
    assert rms_of(f32(*values)) == pytest.approx(rms, rel=1e-7)

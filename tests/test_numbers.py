"""What an artifact gave against what the source gave: every doubt is a failed check."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from convert.records import Case, Check, Floor
from convert.validators.numbers import compare_case
from convert.validators.tolerance import Typical

Array = np.ndarray[Any, Any]
NAN, INF = math.nan, math.inf
RULE = "8 noise floors, at least 8 ulp and at most 0.001 of the largest output"
EXACT = "equal, element by element"
EITHER = "equal, element by element (to the source or, where rounding decides, to its float64 run)"


def f32(*values: float) -> Array:
    """A float32 vector."""
    return np.array(values, np.float32)


def one(
    wanted: Array,
    got: Any,
    truth: Any = None,
    floor: Floor = Floor(1.0, 2.0**-16, 2.0**-18),  # noqa: B008  (frozen)
    precision: str = "float32",
    origin: str = "draw",
) -> Check:
    """The only check of the output ``y``, with 8 floors allowed: 2**-13 at most, 2**-15 in the mean."""
    case = Case("c", origin, {"N": 2}, 0, "c.npz", {"y": floor})
    truths = {} if truth is None else {"y": truth}
    usual = {"y": Typical(1.0, 0.0, 0.0, 0.0)}
    (check,) = compare_case(case, precision, 8.0, {"y": wanted}, truths, {"y": got}, usual)
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


OVER = float(np.nextafter(np.float32(2.0**-13), np.float32(1)))
PEAK = "largest error 0.000122 is over the limit 0.000122"
SPREAD = "root-mean-square error 6.1e-05 is over the limit 3.05e-05"


@pytest.mark.parametrize(
    ("at", "error", "rms", "detail"), [(5, OVER, OVER / 8, PEAK), (slice(64), 2.0**-14, 2.0**-14, SPREAD)]
)
def test_over_a_limit_it_fails(at: int | slice, error: float, rms: float, detail: str) -> None:
    check = Check("c", "y", RULE, error, 2.0**-13, False, {"N": 2}, rms, error * 2**16, detail)
    assert one(WANTED, off(at, error)) == check


@pytest.mark.parametrize(("origin", "limit"), [("draw", 2.0**-13), ("sample", 2.0**-13), ("edge", 5 * 2.0**-13)])
def test_edges_may_be_off_by_five_times_as_much(origin: str, limit: float) -> None:
    assert one(WANTED, off(5, limit), origin=origin).passed is True
    assert one(WANTED, off(5, 1.01 * limit), origin=origin).passed is False


HALF = Floor(1.0, 0.0, 0.0, 2.0**-9, 2.0**-9)


@pytest.mark.parametrize(
    ("floor", "precision", "at", "error", "passed"),
    [
        # A floor of zero is luck: a few units in the last place are allowed.
        (Floor(1.0, 0.0, 0.0), "float32", 5, 2.0**-20, True),
        (Floor(1.0, 0.0, 0.0), "float32", 5, 1.01 * 2.0**-20, False),
        # However noisy the source is, a thousandth is the most.
        (Floor(1.0, 0.5, 0.5), "float32", 5, 0.000999, True),
        (Floor(1.0, 0.5, 0.5), "float32", 5, 0.001001, False),
        # Without a float64 truth a constant share is allowed.
        (Floor(1.0, None, None), "float32", 5, 1.99e-5, True),
        (Floor(1.0, None, None), "float32", 5, 2.01e-5, False),
        # float16: three of the source's own float16 floors ...
        (HALF, "float16", 5, 3 * 2.0**-9, True),
        (HALF, "float16", 5, 3.01 * 2.0**-9, False),
        # ... and a signal-to-noise ratio of 40 dB: a hundredth of the root mean square, which is an eighth.
        (HALF, "float16", slice(64), 0.00124, True),
        (HALF, "float16", slice(64), 0.00126, False),
    ],
)
def test_every_rule_holds(floor: Floor, precision: str, at: int | slice, error: float, passed: bool) -> None:
    assert one(WANTED, off(at, error), floor=floor, precision=precision).passed is passed


def test_an_output_of_zeros_must_stay_zeros() -> None:
    for last, passed in ((0.0, True), (-0.0, True), (1e-11, False)):
        assert one(f32(0, 0), f32(0, last), floor=Floor(0.0, 0.0, 0.0)).passed is passed


@pytest.mark.parametrize(
    ("wanted", "got", "truth", "figure", "passed"),
    [
        # The error is the distance from the truth, and not from the source.
        (f32(1, 2), f32(1 + 2.0**-16, 2), [1 + 2.0**-16, 2], 0.0, True),
        (f32(1, 2), f32(1, 2), [1 + 2.0**-16, 2], 2.0**-16, True),
        (f32(1, 2), f32(1 - 2.0**-13, 2), [1 + 2.0**-16, 2], 2.0**-13 + 2.0**-16, False),
        # Where the truth is not finite the source stands in; where the source overflows, so must the artifact.
        (f32(1, 0.5), f32(1, 0.75), [1, NAN], 0.25, False),
        (f32(1, INF), f32(1, INF), [1, 1e39], 0.0, True),
        (f32(1, INF), f32(1, 3e38), [1, float(f32(3e38)[0])], 0.0, False),
    ],
)
def test_truth(wanted: Array, got: Array, truth: list[float], figure: float, passed: bool) -> None:
    check = one(wanted, got, np.array(truth, np.float64))
    assert (check.figure, check.passed) == (figure, passed)


@pytest.mark.parametrize(
    ("wanted", "got", "word", "count"),
    [
        (f32(1, NAN), f32(1, 1), "NaN", 1),
        (f32(NAN, 0), f32(NAN, NAN), "NaN", 1),
        (f32(NAN, 0), f32(0, NAN), "NaN", 2),
        (f32(1, 0), f32(1, INF), "+infinity", 1),
        (f32(1, 0), f32(1, -INF), "-infinity", 1),
        (f32(1, INF), f32(1, -INF), "+infinity", 1),
        (f32(1, INF), f32(1, NAN), "NaN", 1),
    ],
)
def test_nan_and_infinity_stand_where_they_stand_in_the_source(
    wanted: Array, got: Array, word: str, count: int
) -> None:
    for first, second in ((wanted, got), (got, wanted)):
        check = one(first, second)
        detail = f"{word} stands in other places than in the source ({count} of 2 elements differ)"
        assert (check.passed, check.detail) == (False, detail)
        assert one(first, first).passed is True


def test_an_overflow_of_the_source_stays_one() -> None:
    wanted, truth = f32(1, INF), np.array([1, 1e39], np.float64)
    assert one(wanted, wanted, truth).passed is True
    assert one(wanted, f32(1, 3e38), truth).passed is False


def ints(*values: int) -> Array:
    """An int64 vector."""
    return np.array(values, np.int64)


INTS = ints(1, -2, 2**53 + 1)
TIE = ints(1, -1, 2**53 + 1)


@pytest.mark.parametrize(
    ("wanted", "got", "truth", "wrong", "rule"),
    [
        (INTS, INTS, None, 0, EXACT),
        (INTS, TIE, None, 1, EXACT),
        (INTS, ints(1, -2, 2**53), None, 1, EXACT),
        (INTS, TIE, TIE, 0, EITHER),
        (INTS, INTS, TIE, 0, EITHER),
        (INTS, ints(2, -1, 2**53 + 1), TIE, 1, EITHER),
        (INTS, TIE, np.int64(-1), 1, EXACT),
        (np.array([True, False]), np.array([False, True]), None, 2, EXACT),
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
        (ints(1), np.array([1], np.int32), "dtype int32 instead of int64"),
        (f32(1, 2), f32(1, 2)[None], "shape [1, 2] instead of [2]"),
        (f32(1, 2), f32(), "shape [0] instead of [2]"),
    ],
)
def test_the_interface_must_be_the_sources_own(wanted: Array, got: Any, detail: str) -> None:
    rule = "same count, dtype and shape as the source"
    assert one(wanted, got) == Check("c", "y", rule, INF, 0.0, False, {"N": 2}, detail=detail)

"""From a noise floor to a limit: every rule with round binary figures, so that the right value is exact."""

from __future__ import annotations

import pytest

from convert.records import Floor
from convert.validators.tolerance import Limit, Typical, limit_for, typical

EPS = 2.0**-23
ULPS = 8 * EPS
RULE = "8 noise floors, at least 8 ulp and at most 0.001 of the largest output"
NO_TRUTH = "2e-05 of the largest output (no float64 truth)"
HALF = "3 float16 floors of the source, at most 0.05 of the largest output, and SQNR of at least 40 dB"
NO_HALF = "0.01 of the largest output (the source has no float16 of its own) and SQNR of at least 40 dB"


def usual(scale: float = 1.0, worst: float | None = 0.0, rms: float | None = 0.0, half: float | None = 0.0) -> Typical:
    """What is usual; by default nothing beyond the case's own floor."""
    return Typical(scale, worst, rms, half)


@pytest.mark.parametrize(
    ("floor", "typical_", "limit"),
    [
        # The plain rule: multiples of the two floors.
        (Floor(1.0, 2.0**-16, 2.0**-18), usual(), Limit(2.0**-13, 2.0**-15, 2.0**-16, RULE)),
        # Never stricter than 8 units in the last place of the largest output.
        (Floor(1.0, 2.0**-16, 2.0**-25), usual(), Limit(2.0**-13, ULPS, 2.0**-16, RULE)),
        (Floor(4.0, 2.0**-30, 2.0**-30), usual(4.0), Limit(4 * ULPS, 4 * ULPS, 2.0**-30, RULE)),
        (Floor(1.0, 0.0, 0.0), usual(), Limit(ULPS, ULPS, 0.0, RULE)),
        (Floor(1.0, 0.0, 0.0), usual(1.0, None, None), Limit(ULPS, ULPS, 0.0, RULE)),
        # Never laxer than a thousandth of the largest output.
        (Floor(4.0, 0.5, 2.0**-8), usual(4.0), Limit(4e-3, 4e-3, 0.5, RULE)),
        (Floor(4.0, 0.5, 2.0**-16), usual(4.0), Limit(4e-3, 2.0**-13, 0.5, RULE)),
        # What is usual over the cases lifts a lucky case, by its own scale; it never lowers one.
        (Floor(4.0, 2.0**-20, 2.0**-20), usual(1.0, 2.0**-17, 2.0**-18), Limit(2.0**-12, 2.0**-13, 2.0**-15, RULE)),
        (Floor(1.0, 2.0**-16, 2.0**-18), usual(1.0, 2.0**-22, 2.0**-22), Limit(2.0**-13, 2.0**-15, 2.0**-16, RULE)),
        # An output of zeros: all but equal, where other cases show how large it gets ...
        (Floor(0.0, 0.0, 0.0), usual(1.0), Limit(ULPS * EPS, ULPS * EPS, 0.0, RULE)),
        (
            Floor(0.0, 0.0, 0.0),
            usual(1.0, 2.0**-16, 2.0**-18),
            Limit(EPS * 2.0**-13, EPS * 2.0**-15, EPS / 2**16, RULE),
        ),
        (Floor(0.0, 2.0**-20, 0.0), usual(1.0), Limit(1e-3 * EPS, ULPS * EPS, 2.0**-20, RULE)),
        # ... and equal where nothing is known.
        (Floor(0.0, 0.0, 0.0), usual(0.0, None, None, None), Limit(0.0, 0.0, 0.0, RULE)),
        (Floor(0.0, 1.0, 1.0), usual(0.0, None, None, None), Limit(0.0, 0.0, 1.0, RULE)),
        # Next to nothing beside the usual scale: units in the last place of that scale's own last place.
        (Floor(2.0**-40, 0.0, 0.0), usual(1.0), Limit(ULPS * EPS, ULPS * EPS, 0.0, RULE)),
        # No float64 truth, or half of one: a constant share.
        (Floor(4.0, None, None), usual(4.0, None, None), Limit(8e-5, 8e-5, None, NO_TRUTH)),
        (Floor(4.0, 2.0**-3, None), usual(4.0), Limit(8e-5, 8e-5, None, NO_TRUTH)),
        (Floor(4.0, None, 2.0**-3), usual(4.0), Limit(8e-5, 8e-5, None, NO_TRUTH)),
        (Floor(0.0, None, None), usual(0.0, None, None), Limit(0.0, 0.0, None, NO_TRUTH)),
    ],
)
def test_float32(floor: Floor, typical_: Typical, limit: Limit) -> None:
    assert limit_for("float32", floor, typical_, 8.0, 1.0) == limit


def test_the_multiple_is_the_targets_own() -> None:
    floor = Floor(1.0, 2.0**-16, 2.0**-18)
    assert limit_for("float32", floor, usual(), 10.0, 1.0) == Limit(
        10 * 2.0**-16,
        10 * 2.0**-18,
        2.0**-16,
        "10 noise floors, at least 8 ulp and at most 0.001 of the largest output",
    )


def test_rms_of_the_source_plays_no_part_in_float32() -> None:
    floor = Floor(1.0, 2.0**-16, 2.0**-18)
    assert limit_for("float32", floor, usual(), 8.0, 0.0) == limit_for("float32", floor, usual(), 8.0, 100.0)


@pytest.mark.parametrize(
    ("floor", "typical_", "rms_of_source", "limit"),
    [
        (Floor(1.0, 0.0, 0.0, 2.0**-8, 0.5), usual(), 0.5, Limit(3 * 2.0**-8, 0.005, 2.0**-8, HALF)),
        # Never stricter than two float16 units, a quarter of that as root mean square.
        (Floor(4.0, 0.0, 0.0, 0.0, 0.0), usual(4.0), 0.0, Limit(2.0**-7, 2.0**-9, 0.0, HALF)),
        # Never laxer than a twentieth of the largest output.
        (Floor(4.0, 0.0, 0.0, 3.0, 3.0), usual(4.0), 1.0, Limit(0.2, 0.01, 3.0, HALF)),
        # What is usual lifts a lucky case.
        (Floor(4.0, 0.0, 0.0, 2.0**-20, 0.0), usual(1.0, 0, 0, 2.0**-9), 1.0, Limit(3 * 2.0**-7, 0.01, 2.0**-7, HALF)),
        # The source has no float16 of its own, here or anywhere.
        (Floor(4.0, 0.0, 0.0), usual(4.0), 1.0, Limit(0.04, 0.01, None, NO_HALF)),
        (Floor(4.0, 0.0, 0.0, 2.0**-8, 0.5), usual(4.0, 0, 0, None), 1.0, Limit(0.04, 0.01, None, NO_HALF)),
        # An output of zeros.
        (Floor(0.0, 0.0, 0.0, 0.0, 0.0), usual(1.0), 0.0, Limit(2.0**-32, 2.0**-34, 0.0, HALF)),
        (Floor(0.0, 0.0, 0.0), usual(1.0), 0.0, Limit(0.01 * EPS, 2.0**-34, None, NO_HALF)),
        (Floor(0.0, 0.0, 0.0, 1.0, 1.0), usual(0.0), 0.0, Limit(0.0, 0.0, 1.0, HALF)),
    ],
)
def test_float16(floor: Floor, typical_: Typical, rms_of_source: float, limit: Limit) -> None:
    assert limit_for("float16", floor, typical_, 8.0, rms_of_source) == limit


def test_float16_knows_no_multiple_of_the_target() -> None:
    floor = Floor(1.0, 0.0, 0.0, 2.0**-8, 0.5)
    assert limit_for("float16", floor, usual(), 8.0, 0.5) == limit_for("float16", floor, usual(), 50.0, 0.5)


def test_another_precision_is_held_to_the_strict_rule() -> None:
    floor = Floor(1.0, 2.0**-16, 2.0**-18, 0.5, 0.5)
    assert limit_for("bfloat16", floor, usual(), 8.0, 1.0) == limit_for("float32", floor, usual(), 8.0, 1.0)


@pytest.mark.parametrize(
    ("floors", "summary"),
    [
        ([], Typical(0.0, None, None, None)),
        ([Floor(0.0, 1.0, 1.0, 1.0, 1.0)], Typical(0.0, None, None, None)),
        ([Floor(2.0, None, None)], Typical(2.0, None, None, None)),
        (
            [
                Floor(2.0, 1.0, 0.5, 4.0, 9.0),
                Floor(4.0, 1.0, 4.0, 1.0, 9.0),
                Floor(8.0, 8.0, 0.0, None),
                Floor(0.0, 9, 9),
            ],
            Typical(8.0, 0.5, 0.25, 1.125),
        ),
        ([Floor(1.0, 0.0, 0.0, 0.0), Floor(1.0, 1.0, 3.0, 5.0)], Typical(1.0, 0.5, 1.5, 2.5)),
        ([Floor(1.0, None, 0.25), Floor(1.0, 0.5, None)], Typical(1.0, 0.5, 0.25, None)),
    ],
)
def test_typical(floors: list[Floor], summary: Typical) -> None:
    assert typical(floors) == summary


def test_one_noisy_case_does_not_lift_the_others() -> None:
    calm = [Floor(1.0, 2.0**-20, 2.0**-21, 2.0**-10)] * 4
    assert typical([*calm, Floor(1.0, 0.5, 0.5, 0.5)]) == Typical(1.0, 2.0**-20, 2.0**-21, 2.0**-10)


@pytest.mark.parametrize(("origin", "multiple"), [("draw", 8.0), ("sample", 8.0), ("edge", 40.0), ("", 8.0)])
def test_only_edges_may_be_off_by_more(origin: str, multiple: float) -> None:
    floor = Floor(1.0, 2.0**-16, 2.0**-18)
    assert limit_for("float32", floor, usual(), 8.0, 1.0, origin) == limit_for("float32", floor, usual(), multiple, 1.0)


def test_an_edge_in_float16() -> None:
    """EfficientNet-Lite0 on one constant image: weights rounded to float16 err alike everywhere, the source did not."""
    floor, rms = Floor(2.552, 2.5e-6, 7.3e-7, 0.0128, 0.0041), 0.859
    limit = limit_for("float16", floor, usual(2.552, 0, 0, 0.0025), 20.0, rms, "edge")
    assert limit.max_error == pytest.approx(0.05 * 2.552)  # 15 floors would be 0.192
    assert limit.rms_error == pytest.approx(5 * rms / 100)
    assert limit.rule == (
        "15 float16 floors of the source, at most 0.05 of the largest output, and SQNR of at least 26 dB"
    )
    strict = limit_for("float16", floor, usual(2.552, 0, 0, 0.0025), 20.0, rms, "sample")
    assert strict.max_error < 0.0435 < limit.max_error
    assert strict.rms_error < 0.0127 < limit.rms_error

"""Percentiles, ratios within rounds, and the warnings about them."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from convert.validators.latency import Percentiles, Ratio, percentile, ratio, summarise, warnings_for


@pytest.mark.parametrize(
    ("values", "share", "result"),
    [
        ([7.0], 0.99, 7.0),
        ([4.0, 1.0, 3.0, 2.0], 0.5, 2.5),
        ([1.0, 2.0, 3.0], 0.5, 2.0),
        ([1.0, 2.0], 0.75, 1.75),
        ([5.0, 1.0], 0.0, 1.0),
        ([5.0, 1.0], 1.0, 5.0),
        (list(range(101)), 0.9, 90.0),
    ],
)
def test_percentile(values: list[float], share: float, result: float) -> None:
    assert percentile(values, share) == result


def test_percentile_is_that_of_numpy() -> None:
    values = np.random.default_rng(0).exponential(size=37).tolist()
    for share in (0.1, 0.5, 0.9, 0.99):
        assert percentile(values, share) == pytest.approx(np.percentile(values, 100 * share), rel=1e-12)


def test_summarise() -> None:
    assert summarise([float(value) for value in reversed(range(101))]) == Percentiles(50.0, 90.0, 99.0)


def test_ratios_are_taken_within_rounds() -> None:
    # The machine is ten times slower in the second round, which touches no ratio.
    rounds, reference = [[1.0, 2.0, 9.0], [20.0, 20.0, 20.0]], [[4.0, 4.0, 1.0], [40.0, 40.0, 0.0]]
    assert ratio(rounds, reference) == Ratio(0.5, 0.5, 0.5)


def test_ratio_gives_the_median_round_and_the_spread() -> None:
    rounds = [[float(place)] for place in range(1, 11)] + [[99.0]]
    assert ratio(rounds, [[2.0]] * 11) == Ratio(3.0, 1.0, 5.0)


def test_rounds_must_pair() -> None:
    with pytest.raises(ValueError, match="zip"):
        ratio([[1.0], [1.0]], [[1.0]])


FEW = "only 29 runs were timed; p99 means little below 30"


@pytest.mark.parametrize(
    ("times", "ratios", "found"),
    [
        ([1.0] * 30, [], ()),
        ([1.0] * 29, [None], (FEW,)),
        # Five in a hundred may be slow; slow is more than three times the median.
        ([1.0] * 95 + [3.1] * 5, [], ()),
        ([1.0] * 94 + [3.0] * 6, [], ()),
        (
            [1.0] * 94 + [3.1] * 6,
            [],
            ("6 of 100 runs took over 3 times the median; the machine was busy",),
        ),
        ([1.0] * 30, [Ratio(1.0, 1.0, 1.1875), None, Ratio(5.0, 5.0, 6.0)], ()),
        ([1.0] * 30, [Ratio(1.0, 0.9, 1.2)], ("the ratio varied from 0.90 to 1.20 between rounds",)),
        (
            [1.0] * 30,
            [None, Ratio(2.0, 1.0, 3.0), Ratio(1.0, 0.5, 9.0)],
            ("the ratio varied from 1.00 to 3.00 between rounds",),
        ),
        (
            [1.0] * 27 + [4.0] * 2,
            [Ratio(1.0, 0.5, 1.0)],
            (
                FEW,
                "2 of 29 runs took over 3 times the median; the machine was busy",
                "the ratio varied from 0.50 to 1.00 between rounds",
            ),
        ),
    ],
)
def test_warnings(times: list[float], ratios: list[Ratio | None], found: tuple[str, ...]) -> None:
    assert warnings_for(times, ratios) == found


def test_without_times_there_are_no_figures() -> None:
    with pytest.raises(statistics.StatisticsError):
        warnings_for([], [])

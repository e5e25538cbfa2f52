"""Ranges by minimum and maximum, percentile and squared error, streamed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convert.errors import StageError
from convert.targets.ranges import Ranges

UNIFORM = (np.arange(100_000, dtype=np.float32) + 0.5) / 100_000  # 0 .. 1, evenly


def range_of(values: Any, rule: str = "minmax", **more: Any) -> Any:
    ranges = Ranges(rule, **more)
    ranges.add({"x": np.asarray(values, np.float32)})
    return ranges.result()["x"]


@pytest.mark.parametrize(
    ("values", "wanted", "symmetric"),
    [
        ([-1.5, 0.25, 3.0], (-1.5, 3.0), (-3.0, 3.0)),
        ([2.0, 3.0], (0.0, 3.0), (-3.0, 3.0)),
        ([-4.0, -2.0], (-4.0, 0.0), (-4.0, 4.0)),
        ([0.0], (0.0, 0.0), (0.0, 0.0)),
    ],
)
def test_minimum_and_maximum_hold_zero(
    values: list[float], wanted: tuple[float, float], symmetric: tuple[float, float]
) -> None:
    assert range_of(values) == wanted
    assert range_of(values, symmetric=True) == symmetric


def test_percentile_leaves_out_the_same_share_on_both_sides() -> None:
    values = np.concatenate([UNIFORM * 2 - 1, [100.0, -300.0]])
    assert range_of(values) == (-300.0, 100.0)
    low, high = range_of(values, "percentile", percentile=99.0)
    # A bin is 300 / 4096 rounded up to a power of two: 0.125.
    assert (low, high) == (-1.0, 1.0)
    assert range_of(values, "percentile", percentile=100.0) == (-300.0, 100.0)


def test_percentile_finds_the_quantile_within_a_bin() -> None:
    low, high = range_of(UNIFORM, "percentile", percentile=90.0)
    assert low == 0.0
    assert high == pytest.approx(0.95, abs=1 / 4096)
    assert range_of(UNIFORM, "percentile", percentile=90.0, symmetric=True)[1] == pytest.approx(0.90, abs=1 / 4096)


def test_percentile_counts_zeros_as_values() -> None:
    values = np.concatenate([np.zeros(99_000), np.linspace(1, 10, 1000)])
    assert range_of(values, "percentile", percentile=98.0) == (0.0, pytest.approx(0.0, abs=0.01))


def test_least_squared_error_cuts_an_outlier_only_where_that_pays() -> None:
    assert range_of(UNIFORM, "mse") == (0.0, pytest.approx(1.0, abs=0.021))
    values = np.concatenate([np.random.default_rng(0).normal(size=100_000), [60.0]])
    low, high = range_of(values, "mse")

    def error(low: float, high: float) -> float:
        step = (high - low) / 255
        return float(((np.clip(np.round(values / step) * step, low, high) - values) ** 2).sum())

    tried = [error(a, b) for a in np.linspace(values.min(), -2, 30) for b in np.linspace(2, 60, 100)]
    assert error(low, high) == pytest.approx(min(tried), rel=0.05)
    assert high < 55.0
    few = np.concatenate([np.random.default_rng(0).normal(size=100), [60.0]])
    assert range_of(few, "mse")[1] == pytest.approx(60.0, rel=0.02)


def test_symmetric_least_squared_error_is_that_of_a_grid_about_zero() -> None:
    values = np.concatenate([np.random.default_rng(0).normal(size=100_000), [-60.0]]).astype(np.float32)
    low, high = range_of(values, "mse", symmetric=True)
    assert low == -high

    def error(bound: float) -> float:
        step = 2 * bound / 255
        return float(((np.clip(np.round(values / step) * step, -bound, bound) - values) ** 2).sum())

    assert error(high) == pytest.approx(min(error(bound) for bound in np.linspace(2, 60, 117)), rel=0.05)


@pytest.mark.parametrize("rule", ["minmax", "percentile", "mse"])
def test_neither_order_nor_batching_matters(rule: str) -> None:
    values = np.random.default_rng(1).normal(size=4096).astype(np.float32) ** 3
    whole, parts = Ranges(rule), Ranges(rule)
    whole.add({"x": values})
    for part in np.split(values[np.argsort(np.abs(values))], 64):  # so that the histogram widens all the time
        parts.add({"x": part})
    assert whole.result() == parts.result()


def test_what_is_not_finite_or_not_floating_has_no_range() -> None:
    ranges = Ranges("mse")
    ranges.add({"mask": np.array([0.0, -np.inf]), "ids": np.arange(3), "nan": np.array([np.nan]), "none": np.zeros(0)})
    ranges.add({"mask": np.array([1.0])})
    assert ranges.result() == {}


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(StageError) as caught:
        Ranges("entropy")
    assert caught.value.reason == "there is no range rule 'entropy'; choose one of minmax, percentile, mse"

"""The noise floor of the source: exact figures from small arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from convert.records import Floor
from convert.validators.floor import error_figures, measure, scale_of
from convert.validators.numbers import rms_of

NAN, INF = math.nan, math.inf


def array(values: Any, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """``values`` as an array."""
    return np.array(values, dtype)


@pytest.mark.parametrize(
    ("actual", "truth", "worst", "rms"),
    [
        ([1, 2, 4], [1, 2, 4], 0.0, 0.0),
        ([1, 2, 4, 8], [1, 2, 2, 8], 2.0, 1.0),
        ([-3, 0], [0, -4], 4.0, math.sqrt(12.5)),
        ([[1, 2], [3, 4]], [[2, 3], [4, 5]], 1.0, 1.0),
        (5, 2, 3.0, 3.0),
        ([], [], 0.0, 0.0),
        ([NAN, INF, 1, -INF], [7, 7, 3, 7], 2.0, 2.0),
        ([7, 7, 3, 7], [NAN, INF, 1, -INF], 2.0, 2.0),
        ([NAN, INF, 9], [NAN, INF, NAN], 0.0, 0.0),
    ],
)
def test_error_figures(actual: Any, truth: Any, worst: float, rms: float) -> None:
    assert error_figures(array(actual), array(truth, "float64")) == (worst, rms)


def test_the_difference_is_taken_in_float64() -> None:
    assert error_figures(array([65504], "float16"), array([-65504], "float16")) == (131008.0, 131008.0)
    assert error_figures(array([1]), array([1 + 2.0**-40], "float64")) == (2.0**-40, 2.0**-40)


@pytest.mark.parametrize(
    ("values", "scale"),
    [([1, -5, 3], 5.0), ([NAN, INF, -INF, 0.5], 0.5), ([NAN], 0.0), ([], 0.0), ([0, 0], 0.0), (-2, 2.0)],
)
def test_scale_of(values: Any, scale: float) -> None:
    assert scale_of(array(values)) == scale


SOURCE = array([1, 2, 3, 4])
TRUTH = array([1, 2, 3, 4.5], "float64")
HALF = array([1, 2, 4, 4.5], "float16")


@pytest.mark.parametrize(
    ("source", "truth", "half", "floor"),
    [
        # The scale is the truth's, and float16 is held against the truth as well.
        (SOURCE, TRUTH, HALF, Floor(4.5, 0.5, 0.25, 1.0, 0.5)),
        (SOURCE, TRUTH, None, Floor(4.5, 0.5, 0.25, None, None)),
        (SOURCE, None, None, Floor(4.0, None, None, None, None)),
        # Without a truth the source stands in for it.
        (SOURCE, None, HALF, Floor(4.0, None, None, 1.0, math.sqrt(1.25 / 4))),
        # A float16 that overflows, or is finite where the source is not, says nothing.
        (SOURCE, TRUTH, array([1, 2, 3, INF], "float16"), Floor(4.5, 0.5, 0.25, None, None)),
        (SOURCE, TRUTH, array([NAN, 2, 3, 4], "float16"), Floor(4.5, 0.5, 0.25, None, None)),
        (array([1, NAN]), array([2, NAN]), array([1, 2], "float16"), Floor(2.0, 1.0, 1.0, None, None)),
        (array([1, NAN]), array([2, NAN]), array([4, NAN], "float16"), Floor(2.0, 1.0, 1.0, 2.0, 2.0)),
        (SOURCE, TRUTH, array([1, 2], "float16"), Floor(4.5, 0.5, 0.25, None, None)),
        (array([0, 0]), array([0, 0]), array([0, 0], "float16"), Floor(0.0, 0.0, 0.0, 0.0, 0.0)),
    ],
)
def test_measure(source: Any, truth: Any, half: Any, floor: Floor) -> None:
    assert measure(source, truth, half) == floor


@pytest.mark.parametrize(
    ("values", "rms"), [([3, 4, -5, 0], math.sqrt(12.5)), ([NAN, INF, 2], 2.0), ([NAN], 0.0), ([], 0.0), ([1e30], 1e30)]
)
def test_rms_of(values: list[float], rms: float) -> None:
    assert rms_of(array(values)) == pytest.approx(rms, rel=1e-7)

"""The noise floor: how far rounding alone moves the source from the exact answer.

The source in float64 stands for the truth. Its own distance from that truth in float32 is the error that no float32
artifact can be blamed for, so limits are multiples of it (see ``validators/tolerance.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convert.records import Floor

Array = np.ndarray[Any, Any]


def error_figures(actual: Array, truth: Array) -> tuple[float, float]:
    """Largest and root-mean-square absolute difference over the elements that are finite in both.

    Both arrays have one shape and a floating dtype; the difference is taken in float64. Without any such element both
    figures are 0.
    """
    both = np.isfinite(actual) & np.isfinite(truth)
    if not both.any():
        return 0.0, 0.0
    gap = np.abs(actual[both].astype(np.float64) - truth[both].astype(np.float64))
    return float(gap.max()), float(np.sqrt(np.mean(np.square(gap))))


def scale_of(values: Array) -> float:
    """Largest finite absolute value; 0 for an array without finite elements."""
    finite = values[np.isfinite(values)]
    return float(np.abs(finite.astype(np.float64)).max()) if finite.size else 0.0


def measure(source: Array, truth: Array | None, half: Array | None) -> Floor:
    """The floor of one floating output of one case.

    Args:
        source: the source's own output.
        truth: the same in float64, None where the source cannot run in it.
        half: the same from the source in float16, None where it cannot run.
    """
    scale = scale_of(source if truth is None else truth)
    floor_max, floor_rms = (None, None) if truth is None else error_figures(source, truth)
    half_max, half_rms = _half_floor(source, source if truth is None else truth, half)
    return Floor(scale, floor_max, floor_rms, half_max, half_rms)


def _half_floor(source: Array, reference: Array, half: Array | None) -> tuple[float | None, float | None]:
    # A float16 source that overflows says nothing of how far a good artifact may be off.
    if half is None or not np.array_equal(np.isfinite(half), np.isfinite(source)):
        return None, None
    return error_figures(half, reference)

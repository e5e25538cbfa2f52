"""Compare an engine's outputs with the source's, by the limits that stand in the recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Comparison:
    """One output of one case.

    Attributes:
        figure, limit: of the quantity ``what``; NaN where there was nothing to measure.
        wrong: why it failed; empty where it passed.
    """

    output: str
    what: str
    figure: float
    limit: float
    wrong: str


def compare(got: dict[str, Array], golden: Any, limits: dict[str, dict[str, float]]) -> list[Comparison]:
    """Compare every output that has limits.

    Args:
        got: the engine's outputs.
        golden: the case's arrays, ``out:NAME`` and perhaps ``truth:NAME`` (the source in float64).
        limits: output name -> ``max_error`` and ``rms_error``, or ``agreement``, the share of an integer output that
            must be equal; all of it where that is not said.
    """
    return [_compare(name, got.get(name), golden, limit) for name, limit in limits.items()]


def _compare(name: str, value: Array | None, golden: Any, limit: dict[str, float]) -> Comparison:
    wanted = golden[f"out:{name}"]
    nothing = float("nan")
    if value is None or value.shape != wanted.shape or value.dtype != wanted.dtype:
        form = f"{wanted.dtype}{list(wanted.shape)}"
        return Comparison(name, "form", nothing, nothing, f"{name}: missing, or another shape or dtype than {form}")
    if wanted.dtype.kind != "f":
        return _compare_integers(name, value, wanted, limit.get("agreement", 1.0))
    finite = np.isfinite(wanted)
    if not np.array_equal(value[~finite], wanted[~finite], equal_nan=True) or not np.isfinite(value[finite]).all():
        wrong = f"{name}: NaN or infinity in other places than in the source"
        return Comparison(name, "finite", nothing, nothing, wrong)
    truth = golden.get(f"truth:{name}", wanted)
    gap = np.abs(value[finite].astype(np.float64) - truth[finite])
    worst, rms = (float(gap.max()), float(np.sqrt(np.mean(gap**2)))) if gap.size else (0.0, 0.0)
    wrong = ""
    if not (worst <= limit["max_error"] and rms <= limit["rms_error"]):
        wrong = (
            f"{name}: error {worst:.3g} (limit {limit['max_error']:.3g}), "
            f"rms {rms:.3g} (limit {limit['rms_error']:.3g})"
        )
    return Comparison(name, "rms error", rms, limit["rms_error"], wrong)


def _compare_integers(name: str, value: Array, wanted: Array, least: float) -> Comparison:
    share = float(np.mean(value == wanted)) if wanted.size else 1.0
    wrong = "" if share >= least else f"{name}: {share:.0%} of the integers agree, {least:.0%} must"
    return Comparison(name, "share that differs", 1 - share, 1 - least, wrong)

"""Figures from interleaved timings, and what makes them less trustworthy.

One round times the artifact, then each reference, a block of runs each. Ratios are taken within a round, so that a
machine whose speed drifts moves both sides alike; the median over the rounds is what is reported.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_FEW_SAMPLES = 30
_WIDE_SPREAD = 0.2
_OUTLIER = 3.0
_MANY_OUTLIERS = 0.05


@dataclass(frozen=True)
class Percentiles:
    """p50, p90 and p99 of the runs, in seconds."""

    p50: float
    p90: float
    p99: float


@dataclass(frozen=True)
class Ratio:
    """Median ratio over the rounds, with its 10th and 90th percentile."""

    median: float
    low: float
    high: float


def percentile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between the closest ranks (the same as ``numpy.percentile``); ``values`` is not empty."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def summarise(times: Sequence[float]) -> Percentiles:
    """Percentiles of all runs."""
    return Percentiles(percentile(times, 0.5), percentile(times, 0.9), percentile(times, 0.99))


def ratio(rounds: Sequence[Sequence[float]], reference: Sequence[Sequence[float]]) -> Ratio:
    """Artifact over reference, round by round; below 1 the artifact is faster."""
    ratios = [statistics.median(a) / statistics.median(b) for a, b in zip(rounds, reference, strict=True)]
    return Ratio(statistics.median(ratios), percentile(ratios, 0.1), percentile(ratios, 0.9))


def warnings_for(times: Sequence[float], ratios: Sequence[Ratio | None]) -> tuple[str, ...]:
    """What a reader should know before trusting the figures."""
    found = []
    if len(times) < _FEW_SAMPLES:
        found.append(f"only {len(times)} runs were timed; p99 means little below {_FEW_SAMPLES}")
    middle = statistics.median(times)
    outliers = sum(time > _OUTLIER * middle for time in times)
    if outliers > _MANY_OUTLIERS * len(times):
        found.append(f"{outliers} of {len(times)} runs took over {_OUTLIER:g} times the median; the machine was busy")
    for one in ratios:
        if one is not None and one.high - one.low > _WIDE_SPREAD * one.median:
            found.append(f"the ratio varied from {one.low:.2f} to {one.high:.2f} between rounds")
            break
    return tuple(found)

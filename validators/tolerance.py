"""From a noise floor to a limit: one rule per precision, each with its reason in words.

Sources of the figures: the multiples were measured over the project's conformance models (docs/checks.md); a correct
artifact lies within about two floors on onnxruntime, at times four, and within nine on runtimes with other kernels.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from convert.records import Floor

_EPS32 = 2.0**-23
_EPS16 = 2.0**-10
#: Never stricter than this many units in the last place of the largest output: a floor of 0 (pure selection) is luck.
_LEAST_ULPS = 8.0
#: Never laxer than this share of the largest output, however noisy the source itself is.
_CAP = {"float32": 1e-3, "float16": 5e-2}
#: Share of the largest output where the source cannot run in float64.
_CONSTANT = {"float32": 2e-5, "float16": 1e-2}
#: Lowest signal-to-noise ratio of a float16 artifact, in dB; a trained CNN has about 70.
_LEAST_SQNR_FLOAT16 = 40.0
_HALF_FLOORS = 3.0
#: Edge values put normalisations where they divide by nearly nothing, so that one floor there is luck.
_EDGE_FACTOR = 5.0


@dataclass(frozen=True)
class Limit:
    """The largest error and root-mean-square error that pass, and the rule that they come from."""

    max_error: float
    rms_error: float
    floor: float | None
    rule: str


@dataclass(frozen=True)
class Typical:
    """What is usual for one output over all its cases: one maximum alone is noisy.

    Attributes:
        scale: largest scale of all cases.
        max_share, rms_share, half_share: median over the cases of floor divided by scale; None without a floor.
    """

    scale: float
    max_share: float | None
    rms_share: float | None
    half_share: float | None


def typical(floors: Iterable[Floor]) -> Typical:
    """Summarise the floors of one output over its cases."""
    known = [floor for floor in floors if floor.scale > 0]
    return Typical(
        scale=max((floor.scale for floor in known), default=0.0),
        max_share=_median([f.max_error / f.scale for f in known if f.max_error is not None]),
        rms_share=_median([f.rms_error / f.scale for f in known if f.rms_error is not None]),
        half_share=_median([f.half_max / f.scale for f in known if f.half_max is not None]),
    )


def limit_for(
    precision: str, floor: Floor, usual: Typical, multiple: float, rms_of_source: float, origin: str = "draw"
) -> Limit:
    """The limit for one output of one case.

    Args:
        precision: ``float32`` or ``float16``.
        floor: noise floor of this case.
        usual: the same over all cases.
        multiple: how many floors the target may be off.
        rms_of_source: root mean square of the source's finite values, for the signal-to-noise rule.
        origin: of the case: ``draw``, ``sample`` or ``edge``; an edge allows more.
    """
    factor = _EDGE_FACTOR if origin == "edge" else 1.0
    multiple *= factor
    scale = floor.scale or usual.scale * _EPS32
    if precision == "float16":
        return _half_limit(scale, floor, usual, rms_of_source, factor)
    least = _LEAST_ULPS * _EPS32 * max(scale, usual.scale * _EPS32)
    if floor.max_error is None or floor.rms_error is None:
        share = _CONSTANT["float32"]
        constant = max(least, share * scale)
        return Limit(constant, constant, None, f"{share:g} of the largest output (no float64 truth)")
    noise = max(floor.max_error, (usual.max_share or 0.0) * scale)
    rms = max(floor.rms_error, (usual.rms_share or 0.0) * scale)
    cap = _CAP["float32"] * scale
    rule = (
        f"{multiple:g} noise floors, at least {_LEAST_ULPS:g} ulp and at most {_CAP['float32']:g} of the largest output"
    )
    return Limit(_clamp(multiple * noise, least, cap), _clamp(multiple * rms, least, cap), noise, rule)


def _half_limit(scale: float, floor: Floor, usual: Typical, rms_of_source: float, factor: float) -> Limit:
    least = 2 * _EPS16 * scale
    decibels = _LEAST_SQNR_FLOAT16 - 20 * math.log10(factor)
    rms_limit = max(rms_of_source * 10 ** (-decibels / 20), least / 4)
    sqnr = f"SQNR of at least {decibels:.0f} dB"
    if floor.half_max is None or usual.half_share is None:
        share = _CONSTANT["float16"]
        return Limit(
            max(least, share * scale),
            rms_limit,
            None,
            f"{share:g} of the largest output (the source has no float16 of its own) and {sqnr}",
        )
    noise = max(floor.half_max, usual.half_share * scale)
    high = _CAP["float16"] * scale
    return Limit(
        _clamp(factor * _HALF_FLOORS * noise, least, high),
        rms_limit,
        noise,
        f"{factor * _HALF_FLOORS:g} float16 floors of the source, at most {_CAP['float16']:g} of the largest output, "
        f"and {sqnr}",
    )


def _clamp(value: float, low: float, high: float) -> float:
    return max(low, min(value, high)) if high > 0 else low


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None

"""Check an integer artifact: right interface and finite everywhere, little noise on real data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from convert.records import Case, Check
from convert.validators.numbers import failed_output, interface_failure, rms_of

Array = np.ndarray[Any, Any]


def compare_integer_case(
    case: Case,
    expected: Mapping[str, Array],
    actual: Mapping[str, Any],
    least_sqnr: float,
    least_agreement: float,
    measured: bool,
) -> list[Check]:
    """One check per output of the source.

    Args:
        case: where the values come from.
        expected: output name -> the source's own array.
        actual: output name -> what the artifact gave.
        least_sqnr: lowest signal-to-noise ratio of a floating output, in dB.
        least_agreement: lowest share of equal elements of an integer or boolean output.
        measured: the case is real data; else only interface and finiteness are checked, for values that the
            calibration has not seen may be cut off.
    """
    checks = []
    for name, wanted in expected.items():
        failure = interface_failure(wanted, actual.get(name))
        if failure:
            checks.append(failed_output(case, name, "same count, dtype and shape as the source", failure))
            continue
        got = np.asarray(actual[name])
        if not measured:
            checks.append(_finite(case, name, wanted, got))
        elif np.issubdtype(wanted.dtype, np.floating):
            checks.append(_noise(case, name, wanted, got, least_sqnr))
        else:
            checks.append(_agreement(case, name, wanted, got, least_agreement))
    extra = sorted(set(actual) - set(expected))
    if extra:
        failure = f"the source has no output {extra[0]}"
        checks.append(failed_output(case, extra[0], "same outputs as the source", failure))
    return checks


def _finite(case: Case, name: str, wanted: Array, got: Array) -> Check:
    count = 0
    if np.issubdtype(wanted.dtype, np.floating):
        count = int(np.count_nonzero(np.isfinite(wanted) & ~np.isfinite(got)))
    detail = f"{count} of {wanted.size} elements are not finite, and the source's are" if count else ""
    rule = "runs, with shape and dtype of the source, finite where the source is"
    return Check(case.name, name, rule, float(count), 0.0, not detail, case.dims, detail=detail)


def _noise(case: Case, name: str, wanted: Array, got: Array, least_sqnr: float) -> Check:
    finite = np.isfinite(wanted)
    signal = rms_of(wanted)
    rms = rms_of((got.astype(np.float64) - wanted.astype(np.float64))[finite & np.isfinite(got)])
    limit = 10 ** (-least_sqnr / 20)
    # A signal of zero has no ratio: there the artifact has to give zero, too.
    share = rms / signal if signal > 0 else (0.0 if rms == 0 else math.inf)
    detail = _finite(case, name, wanted, got).detail
    if not detail and not share <= limit:
        level = f"{-20 * math.log10(share):.1f} dB" if 0 < share < math.inf else "no ratio at all"
        detail = f"the signal-to-noise ratio is {level}, and {least_sqnr:g} dB are wanted"
    rule = f"noise as a share of the source's output, at most {limit:.3g} (SQNR of at least {least_sqnr:g} dB)"
    return Check(case.name, name, rule, share, limit, not detail, case.dims, rms, detail=detail)


def _agreement(case: Case, name: str, wanted: Array, got: Array, least: float) -> Check:
    differ = float(np.count_nonzero(wanted != got)) / max(wanted.size, 1)
    limit = round(1 - least, 12)
    detail = "" if differ <= limit else f"{differ:.1%} of the elements differ, and at most {limit:.0%} may"
    rule = f"at least {least:.0%} of the elements equal"
    return Check(case.name, name, rule, differ, limit, not detail, case.dims, detail=detail)

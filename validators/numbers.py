"""Compare what an artifact gave with what the source gave. Every doubt is a failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from convert.records import Case, Check
from convert.validators.floor import error_figures
from convert.validators.tolerance import Limit, Typical, limit_for

Array = np.ndarray[Any, Any]
_EXACT = "equal, element by element"


def compare_case(
    case: Case,
    precision: str,
    multiple: float,
    expected: Mapping[str, Array],
    truths: Mapping[str, Array],
    actual: Mapping[str, Any],
    usual: Mapping[str, Typical],
) -> list[Check]:
    """One check per output of the source; an output that the artifact does not have is a failed one.

    Args:
        case: the case, with its noise floors.
        precision: precision of the artifact.
        multiple: noise floors that the target may be off (``Tolerance.floors``).
        expected: output name -> the source's own array.
        truths: output name -> the float64 array; may lack names.
        actual: output name -> what the artifact gave.
        usual: output name -> summary of its floors over all cases.
    """
    checks = []
    for name, wanted in expected.items():
        failure = interface_failure(wanted, actual.get(name))
        if failure:
            checks.append(failed_output(case, name, "same count, dtype and shape as the source", failure))
        elif np.issubdtype(wanted.dtype, np.floating):
            limit = limit_for(precision, case.floors[name], usual[name], multiple, rms_of(wanted), case.origin)
            checks.append(_compare_floats(case, name, wanted, truths.get(name), np.asarray(actual[name]), limit))
        else:
            checks.append(_compare_exact(case, name, wanted, truths.get(name), np.asarray(actual[name])))
    extra = sorted(set(actual) - set(expected))
    if extra:
        failure = f"the source has no output {extra[0]}"
        checks.append(failed_output(case, extra[0], "same outputs as the source", failure))
    return checks


def failed_case(case: Case, reason: str) -> Check:
    """The check of a case that the artifact could not run at all."""
    return failed_output(case, "", "runs at every shape", reason)


def interface_failure(wanted: Array, got: Any) -> str:
    """What is wrong with the type, dtype or shape of an output; empty where nothing is."""
    if got is None:
        return "the output is missing"
    if not isinstance(got, np.ndarray):
        return f"the output is a {type(got).__name__}, not an array"
    if got.dtype != wanted.dtype:
        return f"dtype {got.dtype} instead of {wanted.dtype}"
    if got.shape != wanted.shape:
        return f"shape {list(got.shape)} instead of {list(wanted.shape)}"
    return ""


def _compare_floats(case: Case, name: str, wanted: Array, truth: Array | None, got: Array, limit: Limit) -> Check:
    reference = wanted if truth is None else np.where(np.isfinite(truth), truth, wanted)
    worst, rms = error_figures(got, reference)
    detail = _non_finite_difference(wanted, got)
    if not detail and not worst <= limit.max_error:
        detail = f"largest error {worst:.3g} is over the limit {limit.max_error:.3g}"
    if not detail and not rms <= limit.rms_error:
        detail = f"root-mean-square error {rms:.3g} is over the limit {limit.rms_error:.3g}"
    floors = worst / limit.floor if limit.floor else None
    return Check(case.name, name, limit.rule, worst, limit.max_error, not detail, case.dims, rms, floors, detail)


def _non_finite_difference(wanted: Array, got: Array) -> str:
    for word, test in (("NaN", np.isnan), ("+infinity", np.isposinf), ("-infinity", np.isneginf)):
        here, there = test(wanted), test(got)
        if not np.array_equal(here, there):
            count = int(np.count_nonzero(here != there))
            return f"{word} stands in other places than in the source ({count} of {wanted.size} elements differ)"
    return ""


def _compare_exact(case: Case, name: str, wanted: Array, truth: Array | None, got: Array) -> Check:
    """Integers and booleans; where float32 and float64 disagree (a tie that rounding decides) either is right."""
    wrong = got != wanted
    rule = _EXACT
    if truth is not None and truth.shape == wanted.shape:
        wrong &= got != truth.astype(wanted.dtype)
        rule = f"{_EXACT} (to the source or, where rounding decides, to its float64 run)"
    count = int(np.count_nonzero(wrong))
    detail = f"{count} of {wanted.size} elements differ" if count else ""
    return Check(case.name, name, rule, float(count), 0.0, count == 0, case.dims, detail=detail)


def failed_output(case: Case, output: str, rule: str, detail: str) -> Check:
    """A check that failed without a figure."""
    return Check(case.name, output, rule, float("inf"), 0.0, False, case.dims, detail=detail)


def rms_of(values: Array) -> float:
    """Root mean square of the finite values, in float64; 0 without any."""
    finite = values[np.isfinite(values)].astype(np.float64)
    return float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 0.0

"""From many checks to one verdict; the absence of a check is a failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from convert.records import Check, Golden


@dataclass(frozen=True)
class Verdict:
    """Whether an artifact may be called right, one sentence why not, and its worst check."""

    passed: bool
    reason: str
    worst: Check | None


def verdict(checks: Sequence[Check], golden: Golden, skipped: frozenset[str] = frozenset()) -> Verdict:
    """Judge an artifact. It passes only when every output of every case was checked and passed.

    Args:
        checks: what the check stage gave.
        golden: the cases and outputs that must have been checked.
        skipped: cases that this precision does not have to meet.
    """
    failed = [check for check in checks if check.passed is not True or not check.figure <= check.limit]
    worst = max(checks, key=_severity, default=None)
    if failed:
        first = max(failed, key=_severity)
        shapes = sorted({check.case for check in failed})
        return Verdict(
            False,
            f"{_where(first)}: {first.detail or 'not passed'} (failed in {len(shapes)} of "
            f"{len(golden.cases) - len(skipped)} cases)",
            first,
        )
    required = [(c.name, o.name) for c in golden.cases if c.name not in skipped for o in golden.outputs]
    seen = {(check.case, check.output) for check in checks}
    for case, output in required:
        if (case, output) not in seen:
            return Verdict(False, f"output {output} was not checked in case {case}", None)
    if not required:
        return Verdict(False, "there was nothing to check", None)
    return Verdict(True, "", worst)


def _severity(check: Check) -> float:
    """How far a check is into its limit; one that could not be measured is the worst."""
    if check.limit > 0:
        return check.figure / check.limit
    return float("inf") if check.figure > 0 or not check.passed else 0.0


def _where(check: Check) -> str:
    dims = ", ".join(f"{name}={value}" for name, value in check.dims.items())
    place = f"case {check.case}" + (f" ({dims})" if dims else "")
    return f"output {check.output} in {place}" if check.output else place

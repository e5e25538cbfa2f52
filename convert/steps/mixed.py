"""``--auto-mixed``: the fewest layers left in float with which an integer artifact meets its gates.

One sensitivity run ranks the layers; then artifacts that keep the worst 1, 2, 4 … of them are built and proven like any
other, until one passes, and the number is narrowed down between the last that failed and the first that passed. At
last each kept layer is tried without, for the ranking looks at every layer alone.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from convert.errors import StageError
from convert.records import Layer, Mixed, Outcome, Status
from convert.steps.job import Built, Job
from convert.steps.sensitivity import rank_layers

#: With more kept layers than this, none is tried without: every trial is a build and a check.
MOST_TRIED_WITHOUT = 8


def rescue(job: Job, base: Built, failed: Built, make: Callable[[Job, Built], Built]) -> Built:
    """Try to meet the gates with some layers in float.

    Args:
        job: the integer artifact that failed its gates.
        base: the float32 artifact that it is made from.
        failed: what became of it.
        make: builds a job from the base, proves the artifact and judges it by every gate.

    Returns:
        The artifact with the fewest layers in float, its files where ``job`` has them; else ``failed`` with what was
        tried. Never raises for what a toolkit does.
    """
    try:
        layers = rank_layers(job, base)
    except StageError as error:
        note = f"no layers could be kept in float: {error.reason}"
        return replace(failed, outcome=replace(failed.outcome, notes=(*failed.outcome.notes, note)))
    numbers = count(1)

    def attempt(kept: tuple[str, ...]) -> Trial[Built]:
        built = make(replace(job, kept=kept, trial=f"trial{next(numbers)}"), base)
        return Trial(built.outcome.status is Status.PASSED, lowest_sqnr(built.outcome), built)

    built, mixed = fewest(layers, attempt)
    mixed = replace(mixed, curve=((0, lowest_sqnr(failed.outcome)), *mixed.curve))
    if built is None or built.folder is None:
        most = max(number for number, _ in mixed.curve)
        reason = f"{failed.outcome.reason}; keeping up to {most} of {len(layers)} layers in float does not help"
        return replace(failed, outcome=replace(failed.outcome, reason=reason, mixed=mixed))
    shutil.rmtree(job.final, ignore_errors=True)
    job.final.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(built.folder, job.final)
    note = f"{len(mixed.kept)} of {len(layers)} layers stay in float: {', '.join(map(short_name, mixed.kept))}"
    outcome = replace(built.outcome, mixed=mixed, notes=(*built.outcome.notes, note))
    return replace(built, outcome=outcome, folder=job.final)


def short_name(layer: str) -> str:
    """A name for people: litert-torch strings together the whole path of every module that went into an operator."""
    return layer.split(";;", maxsplit=1)[0].removeprefix("convert.models.flatten.FlatModule/")


def lowest_sqnr(outcome: Outcome) -> float:
    """Lowest signal-to-noise ratio of any output in dB; minus infinity where none was measured."""
    if outcome.quality:
        return min(quality.sqnr_db for quality in outcome.quality)
    shares = [check.figure for check in outcome.checks if "noise" in check.rule]
    worst = max(shares, default=math.inf)
    return -20 * math.log10(worst) if worst > 0 else math.inf


@dataclass(frozen=True)
class Trial[T]:
    """One artifact that was built and proven.

    Attributes:
        passed: it meets every gate.
        sqnr: lowest signal-to-noise ratio of any output in dB; minus infinity where it does not run.
        result: what the caller made.
    """

    passed: bool
    sqnr: float
    result: T


def fewest[T](layers: Sequence[Layer], attempt: Callable[[tuple[str, ...]], Trial[T]]) -> tuple[T | None, Mixed]:
    """Find the fewest layers to keep in float.

    Args:
        layers: by the noise that each adds, worst first.
        attempt: builds with these layers in float, and proves.

    Returns:
        The result of the artifact with the fewest, None where none passes, and what was tried. At least one layer
        always computes in integers.
    """
    search = _Search([layer.name for layer in layers], attempt)
    number = search.bracket()
    kept = search.without_the_needless(search.names[:number]) if number else ()
    trial = search.tried.get(kept)
    curve = sorted({(len(names), one.sqnr) for names, one in search.tried.items()})
    return (trial.result if trial else None), Mixed(tuple(layers), kept, tuple(curve))


class _Search[T]:
    def __init__(self, names: list[str], attempt: Callable[[tuple[str, ...]], Trial[T]]) -> None:
        self.names = tuple(names)
        self.tried: dict[tuple[str, ...], Trial[T]] = {}
        self._attempt = attempt

    def passes(self, kept: tuple[str, ...]) -> bool:
        """Build and prove, once for the same layers."""
        if kept not in self.tried:
            self.tried[kept] = self._attempt(kept)
        return self.tried[kept].passed

    def bracket(self) -> int:
        """The smallest number of the worst layers with which it passes; 0 for none."""
        most, low, high = len(self.names) - 1, 0, 1
        while high <= most and not self.passes(self.names[:high]):
            low, high = high, (min(2 * high, most) if high < most else most + 1)
        if high > most:
            return 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.passes(self.names[:middle]) else (middle, high)
        return high

    def without_the_needless(self, kept: tuple[str, ...]) -> tuple[str, ...]:
        """Leave out one layer after the other where it passes all the same; the last one is known to be needed."""
        if len(kept) > MOST_TRIED_WITHOUT:
            return kept
        for name in kept[-2::-1]:
            fewer = tuple(other for other in kept if other != name)
            kept = fewer if self.passes(fewer) else kept
        return kept

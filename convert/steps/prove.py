"""Check one artifact in a worker and turn what comes back into a verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from convert.cases import left_out
from convert.context import Context, Say
from convert.providers import misplaced
from convert.records import Artifact, Check, Golden
from convert.records_engine import EngineSummary, Placement
from convert.serial import from_plain, from_plain_or_none
from convert.steps.places import HERE, Where
from convert.targets import load_target
from convert.validators.verdict import Verdict, verdict


@dataclass(frozen=True)
class Proof:
    """The verdict on an artifact, its checks, what the session had to say, the log, and what was seen inside it."""

    verdict: Verdict
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    log: Path
    engine: EngineSummary | None = None
    placement: Placement | None = None


def prove(
    context: Context,
    name: str,
    artifact: Artifact,
    folder: Path,
    golden: Golden,
    say: Say,
    where: Where = HERE,
    provider: str = "cpu",
) -> Proof:
    """Compare ``artifact`` (its files in ``folder``) with the source in every case, where it is to be proven.

    One that must run on another ``provider`` than the CPU passes only if its operators are known to have run there.
    """
    python = context.runtime(load_target(artifact.target)) if where.args is None else context.core()
    ended = context.run(
        f"{name}-check",
        python,
        "check",
        {
            "artifact": artifact,
            "folder": str(folder),
            "golden": golden,
            "golden_folder": str(context.golden_folder),
            "threads": context.options.threads,
            "place": where.args,
            "least_sqnr": context.options.quantization.least_sqnr,
        },
        say,
    )
    if not ended.ok:
        return Proof(Verdict(False, ended.answer.reason, None), (), (), ended.log)
    checks = from_plain(tuple[Check, ...], ended.value["checks"])
    # What may be left out is not for the worker to say.
    skipped = left_out(artifact, golden)
    judged = verdict(checks, golden, skipped)
    told = ended.value.get("placement")
    placement = None if told is None else from_plain(Placement, told)
    elsewhere = misplaced(provider, placement, context.options.max_cpu_ops)
    if judged.passed and elsewhere:
        judged = replace(judged, passed=False, reason=elsewhere)
    # The note says that the numbers are proven, which they only are then.
    notes = (*ended.value["notes"], *((where.note,) if where.note and judged.passed else ()))
    if skipped:
        notes += (f"{artifact.precision} is not held to {', '.join(sorted(skipped))}",)
    engine = from_plain_or_none(EngineSummary, ended.value.get("engine"))
    return Proof(judged, checks, notes, ended.log, engine, placement)

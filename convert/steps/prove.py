"""Check one artifact in a worker and turn what comes back into a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from convert.cases import left_out
from convert.context import Context, Say
from convert.records import Artifact, Check, Golden
from convert.records_engine import EngineSummary
from convert.serial import from_plain, from_plain_or_none
from convert.steps.places import HERE, Where
from convert.targets import load_target
from convert.validators.verdict import Verdict, verdict


@dataclass(frozen=True)
class Proof:
    """The verdict on an artifact, its checks, what the session had to say, the log, and what an engine consists of."""

    verdict: Verdict
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    log: Path
    engine: EngineSummary | None = None


def prove(
    context: Context, name: str, artifact: Artifact, folder: Path, golden: Golden, say: Say, where: Where = HERE
) -> Proof:
    """Compare ``artifact`` (its files in ``folder``) with the source in every case, where it is to be proven."""
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
    # The note says that the numbers are proven, which they only are then.
    notes = (*ended.value["notes"], *((where.note,) if where.note and judged.passed else ()))
    if skipped:
        notes += (f"{artifact.precision} is not held to {', '.join(sorted(skipped))}",)
    return Proof(judged, checks, notes, ended.log, from_plain_or_none(EngineSummary, ended.value.get("engine")))

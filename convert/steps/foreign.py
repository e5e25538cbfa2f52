"""Artifacts for other platforms.

Where the files are the same everywhere they are made once, for this host, and proven again for each platform. What
cannot be proven in full from here is deferred, never passed.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from convert.context import ToolchainMissing
from convert.precisions import INTEGER
from convert.records import Artifact, Outcome, RouteResult, Status
from convert.steps.job import Built, Job, keep
from convert.steps.places import Where
from convert.steps.prove import Proof, prove

_UNPROVEN = "it was made but not proven: "
_NEXT = "prove it on such a machine: run the same command with --device"


def standing(where: Where) -> dict[str, Any]:
    """How an artifact stands that has passed every check that could be made where it is proven."""
    if where.unproven:
        return {"status": Status.DEFERRED, "stage": "check", "reason": where.unproven}
    return {"status": Status.PASSED, "stage": "check", "reason": ""}


def unproven(job: Job, artifact: Artifact, folder: Path, route: str) -> Built:
    """An artifact that was built and cannot be run from here."""
    outcome = job.outcome(
        Status.DEFERRED,
        "check",
        f"built, not run here: {job.target.built_only}" if job.target.built_only else f"{_UNPROVEN}{job.where.nowhere}",
        advice=f"run it on {job.target.device}" if job.target.built_only else _NEXT,
        route=route,
        io=artifact.io,
        notes=artifact.notes,
        versions=artifact.versions,
        operators=artifact.operators,
    )
    return Built(outcome, artifact, keep(job, folder, artifact.files))


def carry(job: Job, made: Built) -> Built:
    """Prove the files of ``made``, an artifact of this host, for the platform of ``job`` too."""
    start = time.monotonic()
    built = _carry(job, made)
    return replace(built, outcome=replace(built.outcome, seconds=round(time.monotonic() - start, 3)))


def _carry(job: Job, made: Built) -> Built:
    platform = job.where.platform
    if platform in job.target.not_on:
        return Built(job.outcome(Status.SKIPPED, "", f"there is no {job.target.name} on {platform}"))
    outcome = replace(made.outcome, platform=platform, latency=None, latency_reason="")
    if made.artifact is None or made.folder is None or made.outcome.status is Status.FAILED:
        return Built(outcome)
    shutil.copytree(made.folder, job.final)
    carried = Built(replace(outcome, checks=()), replace(made.artifact, platform=platform), job.final)
    if made.outcome.status is not Status.PASSED:
        return carried
    if job.where.nowhere:
        why = f"{_UNPROVEN}{job.where.nowhere}"
        deferred = replace(carried.outcome, status=Status.DEFERRED, stage="check", reason=why, advice=_NEXT)
        return replace(carried, outcome=deferred)
    job.say(f"checking for {platform}")
    try:
        proof = prove(
            job.context, job.label, replace(made.artifact, platform=platform), job.final, job.golden, job.say, job.where
        )
    except ToolchainMissing as error:
        return _lost(carried, "toolchain", str(error))
    return _judged(job, carried, proof)


def _judged(job: Job, carried: Built, proof: Proof) -> Built:
    told = ("its quality on real data was measured on this host",) if job.precision in INTEGER else ()
    notes = (*carried.outcome.notes, *proof.notes, *told)
    outcome = replace(carried.outcome, checks=proof.checks, notes=notes, proven=job.where.proven)
    carried = replace(carried, outcome=outcome)
    if not proof.verdict.passed:
        return _lost(carried, "check", proof.verdict.reason)
    return replace(carried, outcome=replace(outcome, **standing(job.where)))


def _lost(carried: Built, stage: str, reason: str) -> Built:
    if carried.folder is not None:
        shutil.rmtree(carried.folder)  # what failed must not lie where it could be taken for what passed
    outcome: Outcome = carried.outcome
    lost = RouteResult(outcome.route, Status.FAILED, stage, reason, 0.0)
    return Built(replace(outcome, status=Status.FAILED, stage=stage, reason=reason, routes=(*outcome.routes, lost)))

"""What cannot be built on this host: prepared for another one, and never called passed."""

from __future__ import annotations

from pathlib import Path

from convert.context import ToolchainMissing
from convert.platforms import folder_of, host_platform
from convert.records import Artifact, RouteResult, Status
from convert.records_engine import Gate
from convert.serial import from_plain
from convert.steps.job import Attempts, Built, Job, build_args, keep
from convert.steps.losing import failure


def deferral(job: Job) -> str:
    """Why the target's device cannot be used here; empty where it can, or where the target needs none."""
    if not job.target.device or job.target.built_only:
        return ""
    context = job.context
    if job.where.platform != host_platform():
        return f"its artifact is made on the machine that runs it, and this host is not {job.where.platform}"
    try:
        python, extra = context.runtime(job.target), ""
    except ToolchainMissing as error:
        python, extra = context.core(), f"; {error}"
    ended = context.run(f"{job.label}-probe", python, "probe", {"target": job.target.name}, job.say)
    if not ended.ok:
        return f"looking for {job.target.device} failed: {ended.answer.reason}"
    reason = str(ended.value["reason"])
    return f"{reason}{extra}" if reason else ""


def defer(job: Job, why: str) -> Built:
    """Prepare the artifact for a host with the device; ``why`` says what this one lacks."""
    attempts = Attempts()
    route = job.target.deferred_route()
    graph = job.graphs[0] if job.graphs else None
    if graph is None:
        return Built(job.outcome(Status.FAILED, "export", f"there is no ONNX graph ({job.export_failure})"))
    folder = job.context.work / "builds" / f"{job.label}-{route.name}"
    folder.mkdir(parents=True)
    ended = job.context.run(
        f"{job.label}-{route.name}",
        job.context.python(route.toolchain),
        "build",
        build_args(job, route, graph, None, folder),
        job.say,
    )
    if not ended.ok:
        attempts.results.append(RouteResult(route.name, Status.FAILED, "build", ended.answer.reason, ended.seconds))
        return Built(failure(job, attempts))
    artifact = from_plain(Artifact, ended.value)
    kept = keep(job, folder, artifact.files)
    result = RouteResult(route.name, Status.DEFERRED, "build", why, round(ended.seconds, 3))
    return Built(
        job.outcome(
            Status.DEFERRED,
            "build",
            why,
            advice=_advice(job),
            route=route.name,
            io=artifact.io,
            routes=(result,),
            notes=artifact.notes,
            gate=_gate(job, kept),
            versions=artifact.versions,
            operators=artifact.operators,
        ),
        artifact,
        kept,
    )


def _advice(job: Job) -> str:
    """What to do with the recipe."""
    platform = job.where.platform
    folder = folder_of(job.target.name, job.precision, platform)
    host = "host" if platform == host_platform() else f"{platform} machine"
    return (
        f"copy the folder {folder} to a {host} with {job.target.device}, run `python build_engine.py` in it, and fold "
        f"the copy into this report with `convert merge {job.context.options.out} COPY`"
    )


def _gate(job: Job, kept: Path) -> Gate:
    """What a toolchain without the device says beforehand of the graph in the recipe: a hint, never a pass."""
    from convert.targets.trt_recipe import ONNX, profiles

    try:
        python = job.context.python(job.target.gate_toolchain)
    except ToolchainMissing as error:
        return Gate("not run", "", str(error))
    ended = job.context.run(
        f"{job.label}-gate", python, "gate", {"onnx": str(kept / ONNX), "profiles": profiles(job.golden)}, job.say
    )
    if not ended.ok:
        return Gate("inconclusive", "", f"it could not be asked: {ended.answer.reason}")
    return from_plain(Gate, ended.value)

"""Step 3: per target and precision, try the routes in order; the first whose artifact passes the checks is taken."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from convert.context import ToolchainMissing
from convert.jobs import Interrupted
from convert.platforms import host_platform
from convert.precisions import CALIBRATED, INTEGER
from convert.qat.ranges import read_ranges
from convert.records import Artifact, Kind, RouteResult, Status
from convert.records_engine import Gpu
from convert.serial import from_plain, from_plain_or_none
from convert.steps.defer import defer, deferral
from convert.steps.export import Graph
from convert.steps.foreign import standing, unproven
from convert.steps.job import Attempts, Built, Job, build_args, keep
from convert.steps.losing import failure
from convert.steps.mixed import rescue
from convert.steps.prove import prove
from convert.steps.provider import ADVICE, lacking_provider
from convert.steps.quality import Assessment, assess
from convert.steps.tune import lacking_toolchain, tune_before
from convert.targets.base import Route


def build_target(job: Job, base: Built | None) -> Built:
    """Make and prove one artifact; never raises for what a toolkit does.

    Args:
        job: what to make.
        base: the artifact of the precision that this one is derived from.
    """
    start = time.monotonic()
    try:
        built = _build(job, base)
        if _to_rescue(job, base, built) and base is not None:
            built = rescue(job, base, built, _build)
    except Interrupted:
        raise
    except Exception as error:  # a fault of this program in one target must not cost the others
        built = Built(job.outcome(Status.FAILED, "build", f"internal error: {type(error).__name__}: {error}"))
    return replace(built, outcome=replace(built.outcome, seconds=round(time.monotonic() - start, 3)))


def _to_rescue(job: Job, base: Built | None, built: Built) -> bool:
    """An artifact that was built and is not good enough, where layers may be kept in float."""
    wanted = job.context.options.quantization.auto_mixed and job.precision in CALIBRATED
    missed = built.outcome.status is Status.FAILED and built.outcome.stage in ("check", "quality")
    return wanted and missed and base is not None and base.folder is not None


def _lacking_ranges(job: Job) -> str:
    """Why the precision cannot be made of this model without data; empty where it can."""
    options = job.context.options
    if job.precision not in CALIBRATED or options.quantization.calibration is not None:
        return ""
    if read_ranges(options.ref.path) is not None:
        return ""
    return (
        f"{job.precision} needs the ranges of activations, and there is no calibration data; give real inputs with "
        "--calibration, or choose int8-dynamic, which needs none"
    )


def _build(job: Job, base: Built | None) -> Built:
    if job.precision not in job.target.precisions:
        offers = ", ".join(job.target.precisions)
        reason = f"{job.target.name} does not offer {job.precision}; it offers {offers}"
        return Built(job.outcome(Status.SKIPPED, "", reason))
    ranges = _lacking_ranges(job)
    if ranges:
        return Built(job.outcome(Status.FAILED, "calibration", ranges))
    elsewhere = _not_made_for(job)
    if elsewhere:
        return Built(job.outcome(Status.SKIPPED, "", elsewhere))
    lacking = job.target.missing(job.where.platform)
    if lacking:
        return Built(job.outcome(Status.FAILED, "toolchain", f"{job.target.name} needs {lacking}"))
    untuned = lacking_toolchain(job)
    if untuned:
        return Built(job.outcome(Status.FAILED, "toolchain", untuned))
    absent = lacking_provider(job)
    if absent:
        return Built(job.outcome(Status.FAILED, "toolchain", absent, advice=ADVICE))
    if job.target.base_precision(job.precision) and (base is None or base.outcome.status is not Status.PASSED):
        why = "was not built" if base is None else f"failed ({base.outcome.reason})"
        return Built(job.outcome(Status.FAILED, "build", f"it is made from the float32 artifact, which {why}"))
    why = deferral(job)
    if why:
        return defer(job, why)
    attempts = Attempts()
    for route, graph in _candidates(job):
        built = _attempt(job, route, graph, base, attempts)
        if built is not None:
            return built
    return Built(failure(job, attempts))


def _not_made_for(job: Job) -> str:
    """Why there is no such artifact on the platform; empty where there is."""
    if job.where.platform in job.target.not_on:
        return f"there is no {job.target.name} on {job.where.platform}"
    if job.target.built_only and job.where.platform != host_platform():
        return f"{job.target.name} artifacts are built on the platform that runs them; run the command there"
    return ""


def _candidates(job: Job) -> Iterator[tuple[Route, Graph | None]]:
    """Every route with the best graph, each graph route with the other exporter's graph right after it."""
    for route in job.target.routes(job.precision):
        if route.needs != "onnx" or not job.graphs:
            yield route, None
        else:
            yield from ((route, graph) for graph in job.graphs)


def _attempt(job: Job, route: Route, graph: Graph | None, base: Built | None, attempts: Attempts) -> Built | None:
    name = f"{route.name}@{graph.route}" if graph is not None and graph is not job.graphs[0] else route.name

    def lost(stage: str, reason: str, seconds: float = 0.0, log: str = "", worst: float | None = None) -> None:
        attempts.results.append(RouteResult(name, Status.FAILED, stage, reason, round(seconds, 3), log, worst))

    if route.dynamic and all(dim.min == dim.max for dim in job.golden.dims):
        why = "this route is for dynamic sizes, and every size of the source is fixed"
        attempts.results.append(RouteResult(name, Status.SKIPPED, "", why, 0.0))
        return None
    if route.needs == "onnx" and graph is None:
        lost("export", f"there is no ONNX graph ({job.export_failure})")
        return None
    if route.needs == "source" and job.golden.kind is Kind.ONNX:
        why = "this route starts from the module, and the source is an ONNX graph"
        attempts.results.append(RouteResult(name, Status.SKIPPED, "", why, 0.0))
        return None
    try:
        return _build_and_prove(job, route, graph, base, attempts, name)
    except ToolchainMissing as error:
        lost("toolchain", str(error))
        return None


def _build_and_prove(
    job: Job, route: Route, graph: Graph | None, base: Built | None, attempts: Attempts, name: str
) -> Built | None:
    context, label = job.context, f"{job.label}-{name}"
    folder = context.work / "builds" / label
    folder.mkdir(parents=True)
    tuning = tune_before(job, route, graph)
    job.say(f"building by {name}")
    ended = context.run(
        label,
        context.python(route.toolchain, route.borrows),
        "build",
        build_args(job, route, graph, base, folder),
        job.say,
    )
    log = context.runner.relative_log(ended.log)
    if not ended.ok:
        attempts.results.append(
            RouteResult(name, Status.FAILED, "build", ended.answer.reason, round(ended.seconds, 3), log)
        )
        attempts.advice.append(ended.answer.advice)
        return None
    artifact = from_plain(Artifact, ended.value)
    if job.where.nowhere or job.target.built_only:
        return unproven(job, artifact, folder, name)
    job.say(f"checking {name}")
    proof = prove(context, label, artifact, folder, job.golden, job.say, job.where, job.provider)
    worst = proof.verdict.worst.figure if proof.verdict.worst else None
    status = Status.PASSED if proof.verdict.passed else Status.FAILED
    attempts.results.append(
        RouteResult(name, status, "check", proof.verdict.reason, round(ended.seconds, 3), log, worst)
    )
    attempts.proofs.append(proof)
    if not proof.verdict.passed:
        return None
    found = assess(job, label, artifact, folder) if job.precision in INTEGER else Assessment()
    if found.reason:
        attempts.results[-1] = replace(attempts.results[-1], status=Status.FAILED, stage="quality", reason=found.reason)
        attempts.assessments.append(found)
        return None
    outcome = job.outcome(
        **standing(job.where),
        route=name,
        io=artifact.io,
        checks=proof.checks,
        routes=tuple(attempts.results),
        notes=(*artifact.notes, *tuning, *proof.notes, *found.notes),
        versions=artifact.versions,
        operators=artifact.operators,
        placement=proof.placement,
        quality=found.quality,
        score=found.score,
        gpu=from_plain_or_none(Gpu, artifact.settings.get("built_on")),
        engine=proof.engine,
    )
    return Built(outcome, artifact, keep(job, folder, artifact.files))

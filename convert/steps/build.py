"""Step 3: per target and precision, try the routes in order; the first whose artifact passes the checks is taken."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from convert.context import Context, Say, ToolchainMissing
from convert.errors import StageError
from convert.records import Artifact, Golden, Kind, Outcome, RouteResult, Status
from convert.serial import from_plain
from convert.specs import format_input
from convert.steps.export import Graph
from convert.steps.prove import Proof, prove
from convert.targets.base import Route, Target, host_platform


@dataclass(frozen=True)
class Built:
    """An outcome with the artifact and folder behind it, where there are any."""

    outcome: Outcome
    artifact: Artifact | None = None
    folder: Path | None = None


@dataclass
class _Attempts:
    """What was tried for one artifact."""

    results: list[RouteResult] = field(default_factory=list)
    proofs: list[Proof] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Job:
    """One artifact to be made."""

    context: Context
    golden: Golden
    graphs: tuple[Graph, ...]
    export_failure: str
    target: Target
    precision: str
    say: Say

    @property
    def label(self) -> str:
        """As it stands in progress lines and names of logs."""
        return f"{self.target.name}-{self.precision}"


def build_target(job: Job, base: Built | None) -> Built:
    """Make and prove one artifact; never raises for what a toolkit does.

    Args:
        job: what to make.
        base: the artifact of the precision that this one is derived from.
    """
    start = time.monotonic()
    built = _build(job, base)
    outcome = built.outcome
    seconds = round(time.monotonic() - start, 3)
    return Built(_with(outcome, seconds=seconds), built.artifact, built.folder)


def _build(job: Job, base: Built | None) -> Built:
    if job.precision not in job.target.precisions:
        return Built(
            _outcome(
                job,
                Status.SKIPPED,
                "",
                f"{job.target.name} does not offer {job.precision}; it offers {', '.join(job.target.precisions)}",
            )
        )
    lacking = job.target.missing()
    if lacking:
        return Built(_outcome(job, Status.FAILED, "toolchain", f"{job.target.name} needs {lacking}"))
    if job.target.base_precision(job.precision) and (base is None or base.outcome.status is not Status.PASSED):
        why = "was not built" if base is None else f"failed ({base.outcome.reason})"
        return Built(_outcome(job, Status.FAILED, "build", f"it is made from the float32 artifact, which {why}"))
    deferral = _deferral(job)
    if deferral:
        return _defer(job, deferral)
    attempts = _Attempts()
    for route, graph in _candidates(job):
        built = _attempt(job, route, graph, base, attempts)
        if built is not None:
            return built
    return Built(_failure(job, attempts))


def _candidates(job: Job) -> Iterator[tuple[Route, Graph | None]]:
    """Every route with the best graph, each graph route with the other exporter's graph right after it."""
    for route in job.target.routes(job.precision):
        if route.needs != "onnx" or not job.graphs:
            yield route, None
        else:
            yield from ((route, graph) for graph in job.graphs)


def _attempt(job: Job, route: Route, graph: Graph | None, base: Built | None, attempts: _Attempts) -> Built | None:
    name = f"{route.name}@{graph.route}" if graph is not None and graph is not job.graphs[0] else route.name

    def lost(stage: str, reason: str, seconds: float = 0.0, log: str = "", worst: float | None = None) -> None:
        attempts.results.append(RouteResult(name, Status.FAILED, stage, reason, round(seconds, 3), log, worst))

    if route.needs == "onnx" and graph is None:
        lost("export", f"there is no ONNX graph ({job.export_failure})")
        return None
    if route.needs == "source" and job.golden.kind is Kind.ONNX:
        lost("build", "this route starts from the module, and the source is an ONNX graph")
        return None
    try:
        return _build_and_prove(job, route, graph, base, attempts, name)
    except ToolchainMissing as error:
        lost("toolchain", str(error))
        return None


def _build_and_prove(
    job: Job, route: Route, graph: Graph | None, base: Built | None, attempts: _Attempts, name: str
) -> Built | None:
    context, label = job.context, f"{job.label}-{name}"
    folder = context.work / "builds" / label
    folder.mkdir(parents=True)
    job.say(f"building by {name}")
    ended = context.run(
        label,
        context.python(route.toolchain, route.borrows),
        "build",
        _build_args(job, route, graph, base, folder),
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
    job.say(f"checking {name}")
    proof = prove(context, label, artifact, folder, job.golden, job.say)
    worst = proof.verdict.worst.figure if proof.verdict.worst else None
    status = Status.PASSED if proof.verdict.passed else Status.FAILED
    attempts.results.append(
        RouteResult(name, status, "check", proof.verdict.reason, round(ended.seconds, 3), log, worst)
    )
    attempts.proofs.append(proof)
    if not proof.verdict.passed:
        return None
    outcome = _outcome(
        job,
        Status.PASSED,
        "check",
        "",
        route=name,
        io=artifact.io,
        checks=proof.checks,
        routes=tuple(attempts.results),
        notes=(*artifact.notes, *proof.notes),
        versions=artifact.versions,
    )
    return Built(outcome, artifact, _keep(job, folder, artifact.files))


def _build_args(job: Job, route: Route, graph: Graph | None, base: Built | None, folder: Path) -> dict[str, Any]:
    context = job.context
    args: dict[str, Any] = {
        "target": job.target.name,
        "precision": job.precision,
        "route": route.name,
        "ref": context.options.ref,
        "golden": job.golden,
        "golden_folder": str(context.golden_folder),
        "folder": str(folder),
        "onnx": str(graph.file) if graph else None,
        "fixed": route.name == "litert-torch",
    }
    if route.needs == "base" and base is not None:
        args |= {"base": base.artifact, "base_folder": str(base.folder)}
    return args


def _keep(job: Job, folder: Path, files: Sequence[str]) -> Path:
    """Move the artifact's own files to their final place; whatever else the toolkit left is dropped."""
    final = job.context.folder / job.target.name / job.precision
    for name in files:
        (final / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / name, final / name)
    return final


def _deferral(job: Job) -> str:
    """Why the target's device cannot be used here; empty where it can, or where the target needs none."""
    if not job.target.device:
        return ""
    context = job.context
    try:
        python, extra = context.runtime(job.target), ""
    except ToolchainMissing as error:
        python, extra = context.core(), f"; {error}"
    ended = context.run(f"{job.label}-probe", python, "probe", {"target": job.target.name}, job.say)
    if not ended.ok:
        return f"looking for {job.target.device} failed: {ended.answer.reason}"
    reason = str(ended.value["reason"])
    return f"{reason}{extra}" if reason else ""


def _defer(job: Job, why: str) -> Built:
    attempts = _Attempts()
    route = job.target.deferred_route()
    graph = job.graphs[0] if job.graphs else None
    if graph is None:
        return Built(_outcome(job, Status.FAILED, "export", f"there is no ONNX graph ({job.export_failure})"))
    folder = job.context.work / "builds" / f"{job.label}-{route.name}"
    folder.mkdir(parents=True)
    ended = job.context.run(
        f"{job.label}-{route.name}",
        job.context.python(route.toolchain),
        "build",
        _build_args(job, route, graph, None, folder),
        job.say,
    )
    if not ended.ok:
        attempts.results.append(RouteResult(route.name, Status.FAILED, "build", ended.answer.reason, ended.seconds))
        return Built(_failure(job, attempts))
    artifact = from_plain(Artifact, ended.value)
    kept = _keep(job, folder, artifact.files)
    gate = _gate(job, graph)
    advice = (
        f"copy the folder {job.target.name}/{job.precision} to a host with {job.target.device} and run "
        "`python build_engine.py` in it"
    )
    result = RouteResult(route.name, Status.DEFERRED, "build", why, round(ended.seconds, 3))
    return Built(
        _outcome(
            job,
            Status.DEFERRED,
            "build",
            why,
            advice=advice,
            route=route.name,
            io=artifact.io,
            routes=(result,),
            notes=(*artifact.notes, gate),
            versions=artifact.versions,
        ),
        artifact,
        kept,
    )


def _gate(job: Job, graph: Graph) -> str:
    """What a toolchain without the device says of the graph beforehand: a hint, never a pass."""
    from convert.targets.trt_recipe import profiles

    try:
        python = job.context.python(job.target.gate_toolchain)
    except ToolchainMissing as error:
        return f"parser gate not run: {error}"
    ended = job.context.run(
        f"{job.label}-gate", python, "gate", {"onnx": str(graph.file), "profiles": profiles(job.golden)}, job.say
    )
    if not ended.ok:
        return f"parser gate failed: {ended.answer.reason}"
    return f"parser gate {ended.value['verdict']}: {ended.value['reason']}"


def _failure(job: Job, attempts: _Attempts) -> Outcome:
    """Name the route that got furthest, and what to try next."""
    order = ("toolchain", "export", "build", "check")
    if not attempts.results:
        raise StageError(f"{job.target.name} has no route for {job.precision}")
    best = max(attempts.results, key=lambda result: order.index(result.stage))
    reason = f"{best.route}: {best.reason}" if len(attempts.results) > 1 else best.reason
    checks = attempts.proofs[-1].checks if attempts.proofs else ()
    for result, proof in zip([r for r in attempts.results if r.stage == "check"], attempts.proofs, strict=True):
        if result is best:
            checks = proof.checks
    return _outcome(
        job,
        Status.FAILED,
        best.stage,
        reason,
        advice=_advice(job, attempts),
        route=best.route,
        checks=checks,
        routes=tuple(attempts.results),
    )


def _advice(job: Job, attempts: _Attempts) -> str:
    for proof in attempts.proofs:
        failed = {check.case for check in proof.checks if not check.passed}
        opt = {dim.name: dim.opt for dim in job.golden.dims}
        if failed and all(case.dims != opt for case in job.golden.cases if case.name in failed):
            fixed = " ".join(f"--input '{_fixed(format_input(spec), opt)}'" for spec in job.golden.inputs)
            return (
                f"it is right at one size only ({', '.join(f'{k}={v}' for k, v in opt.items())}), which the runtime "
                f"cannot change; fix the sizes with {fixed}"
            )
    said = [text for text in attempts.advice if text]
    return said[0] if said else "see the logs of the routes in the report"


def _fixed(text: str, sizes: dict[str, int]) -> str:
    head, _, rest = text.partition("[")
    shape, _, tail = rest.partition("]")
    return f"{head}[{','.join(str(sizes.get(size, size)) for size in shape.split(','))}]{tail}"


def _outcome(job: Job, status: Status, stage: str, reason: str, **more: Any) -> Outcome:
    return Outcome(job.target.name, job.precision, host_platform(), status, stage, reason, **more)


def _with(outcome: Outcome, **changes: Any) -> Outcome:
    from dataclasses import replace

    return replace(outcome, **changes)

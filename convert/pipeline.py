"""The pipeline: an ordered list of plain functions, records in and records out.

golden -> export -> build and check (per target and precision) -> bench -> report
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from convert.context import Context
from convert.errors import ConvertError, InputError
from convert.jobs import Limits, Runner
from convert.logs import tail
from convert.options import Options
from convert.outdir import OutputFolder, full_disk_named
from convert.platforms import host_platform
from convert.precisions import INTEGER
from convert.progress import Progress
from convert.records import ExportRecord, Golden, Outcome, Report, Status
from convert.report.assemble import assemble
from convert.report.write import write_report
from convert.serial import from_plain
from convert.specs import ASSUMED
from convert.steps.bench import bench_all
from convert.steps.build import build_target
from convert.steps.export import Graph, export_onnx
from convert.steps.foreign import carry
from convert.steps.job import Built, Job
from convert.steps.places import HERE, Where, beforehand, where
from convert.targets.base import Target

EXIT_PASSED, EXIT_FAILED, EXIT_USAGE, EXIT_DEFERRED = 0, 1, 2, 3


def run(options: Options, command: Sequence[str], progress: Progress) -> Report:
    """Run the whole pipeline and leave the output folder in place, whatever became of single targets.

    Raises:
        InputError: the model or an option cannot be used; nothing is written then.
    """
    start = time.monotonic()
    with OutputFolder(options.out) as out, full_disk_named(out):
        for name in ("work", "logs", "golden"):
            (out.path / name).mkdir()
        runner = Runner(out.path / "work" / "jobs", out.path / "logs", Limits(options.timeout, options.memory))
        context = Context(options, out.path, runner)
        try:
            golden, export, built = _steps(context, progress)
        except BaseException:
            runner.interrupt()
            raise
        context.seconds |= {f"workers.{stage}": round(spent, 3) for stage, spent in context.worker_seconds.items()}
        context.seconds["total"] = round(time.monotonic() - start, 3)
        report = assemble(context, golden, export, [one.outcome for one in built], command)
        write_report(out.path, report, [(one.outcome, one.artifact) for one in built])
        out.publish()
    return report


def _steps(context: Context, progress: Progress) -> tuple[Golden, ExportRecord, list[Built]]:
    if context.options.config is not None:
        progress.done("options", context.options.config.note)
    with progress:
        with context.timed("golden"):
            golden = make_golden(context, _line(progress, "source"))
        places = [where(context, platform) for platform in context.options.platforms]
        for place in places:
            if beforehand(place):
                progress.done(place.platform, beforehand(place))
        for note in golden.notes:
            if note.startswith(ASSUMED):
                progress.done("inputs", note)
        progress.done("source", f"{golden.module}: {golden.parameters:,} parameters, {len(golden.cases)} cases")
        with context.timed("export"):
            export, graphs = export_onnx(context, golden, _line(progress, "export"))
        progress.done("export", _export_line(export))
        with context.timed("build"):
            built = _build_all(context, golden, export, graphs, places, progress)
        with context.timed("bench"):
            built = bench_all(context, golden, graphs, built, places, _line(progress, "latency"))
    return golden, export, built


def _line(progress: Progress, name: str) -> Callable[[str], None]:
    return lambda text: progress.say(name, text)


def _export_line(export: ExportRecord) -> str:
    if export.status is not Status.PASSED:
        return f"failed: {export.reason}"
    tried = ", ".join(f"{result.route} {result.status}" for result in export.routes)
    return f"opset {export.opset} by route {export.route} ({tried})"


def make_golden(context: Context, say: Callable[[str], None]) -> Golden:
    """Run the source on the cases; raises ``InputError`` where the model or its inputs cannot be used."""
    options = context.options
    ended = context.run(
        "source",
        context.core(),
        "golden",
        {
            "ref": options.ref,
            "inputs": options.inputs,
            "dims": options.dims,
            "samples": options.samples,
            "folder": str(context.golden_folder),
            "half": "float16" in options.precisions,
            "calibration": options.quantization if INTEGER & set(options.precisions) else None,
            "store": str(context.stored_data),
        },
        say,
    )
    if ended.ok:
        return from_plain(Golden, ended.value)
    answer = ended.answer
    error = (
        InputError(answer.reason)
        if answer.error == "input"
        else ConvertError(f"the source could not be run: {answer.reason}")
    )
    # The logs go with the folder; --debug still shows how the worker ended.
    error.add_note("\n".join(["log of the worker:", *tail(ended.log, 60)]))
    raise error


def _build_all(
    context: Context,
    golden: Golden,
    export: ExportRecord,
    graphs: tuple[Graph, ...],
    places: Sequence[Where],
    progress: Progress,
) -> list[Built]:
    """Targets side by side, the precisions of one target in order (a lower one is made from float32)."""
    targets: dict[str, Target] = {target.name: target for target, _ in context.options.work}

    def build_one(target: Target) -> list[Built]:
        def job(precision: str, place: Where) -> Job:
            line = _line(progress, _name(target.name, precision, place.platform))
            return Job(context, golden, graphs, export.reason, target, precision, line, where=place)

        return _build_precisions(context, target, job, places, progress)

    with ThreadPoolExecutor(max_workers=context.options.jobs) as pool:
        futures = [pool.submit(build_one, target) for target in targets.values()]
        try:
            return [built for future in futures for built in future.result()]
        except BaseException:
            context.runner.interrupt()
            raise


def _build_precisions(
    context: Context,
    target: Target,
    job: Callable[[str, Where], Job],
    places: Sequence[Where],
    progress: Progress,
) -> list[Built]:
    """Every precision for every platform: first all for this host, which the other platforms' artifacts may need."""
    home = next((place for place in places if place.platform == host_platform()), None)
    made: dict[str, Built] = {}
    if home is not None or target.portable:
        for precision in _with_bases(target, context.options.precisions):
            base = made.get(target.base_precision(precision) or "")
            made[precision] = _one(target, job(precision, home or HERE), partial(build_target, base=base), progress)
    foreign = [
        _one(target, job(precision, place), partial(_foreign, made=made), progress)
        for place in places
        if place is not home
        for precision in context.options.precisions
    ]
    for precision in made if home is None else made.keys() - set(context.options.precisions):
        # It was only made to be cast or carried from, and nobody asked for it.
        shutil.rmtree(context.folder / target.name / precision, ignore_errors=True)
    asked = [] if home is None else [made[precision] for precision in context.options.precisions]
    return asked + foreign


def _foreign(job: Job, made: dict[str, Built]) -> Built:
    return carry(job, made[job.precision]) if job.target.portable else build_target(job, None)


def _one(target: Target, job: Job, make: Callable[[Job], Built], progress: Progress) -> Built:
    built = make(job)
    progress.done(_name(target.name, job.precision, job.where.platform), _outcome_line(built.outcome))
    return built


def _name(target: str, precision: str, platform: str) -> str:
    return f"{target} {precision}" + ("" if platform == host_platform() else f" {platform}")


def _with_bases(target: Target, precisions: Iterable[str]) -> list[str]:
    """``precisions`` with those that they are made from put first."""
    order: list[str] = []
    for precision in precisions:
        base = target.base_precision(precision) if precision in target.precisions else None
        order += [name for name in (base, precision) if name is not None and name not in order]
    return sorted(order, key=lambda name: target.base_precision(name) is not None)


def _outcome_line(outcome: Outcome) -> str:
    how = f" by {outcome.route}" if outcome.route and outcome.status is Status.PASSED else ""
    why = f": {outcome.reason}" if outcome.reason else ""
    return f"{outcome.status}{how} in {outcome.seconds:.1f} s{why}"


def exit_code(outcomes: Sequence[Outcome], allow_deferred: bool) -> int:
    """0 all passed; 1 something failed; 3 something deferred and nothing failed (0 with ``allow_deferred``).

    A run in which nothing passed, failed or was deferred has proven nothing and is a failure.
    """
    statuses = {outcome.status for outcome in outcomes}
    if Status.FAILED in statuses or not statuses - {Status.SKIPPED}:
        return EXIT_FAILED
    if Status.DEFERRED in statuses and not allow_deferred:
        return EXIT_DEFERRED
    return EXIT_PASSED

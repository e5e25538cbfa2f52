"""Tuning before a build of tvm: whether it can be done, the worker that does it, and what the report says of it."""

from __future__ import annotations

from collections.abc import Mapping

from convert.jobs import Ended
from convert.platforms import cpu_of, host_platform
from convert.records_tuning import Tuned
from convert.serial import from_plain
from convert.steps.export import Graph
from convert.steps.job import Job, build_args, tuning_databases
from convert.steps.places import Where
from convert.targets.base import Route
from convert.toolchains import find, install_command

TOOLCHAIN = "tvm-tuning"
_TARGET = "tvm"
_ROUTE = "onnx"
#: A trial takes about a second; one that takes so long on average is stuck.
_SECONDS_PER_TRIAL = 30.0


def tune_before(job: Job, route: Route, graph: Graph | None) -> tuple[str, ...]:
    """Tune the kernels of the job if that was asked for, and give what is to be said of it.

    Raises:
        ToolchainMissing: the toolchain for it is not installed.
    """
    if job.target.name != _TARGET or not job.context.options.tuning.wanted:
        return ()
    why = cannot_tune(job.where, job.context.options.cpus)
    if why:
        return (why,)
    if route.name != _ROUTE or graph is None:
        return (f"kernels were not tuned: only those of the route {_ROUTE} can be, and this is {route.name}",)
    ended = run_tuning(job, route, graph)
    if not ended.ok:
        return (f"tuning ended early: {ended.answer.reason}; what was measured until then is kept and used",)
    return (tuning_words(from_plain(Tuned, ended.value)),)


def lacking_toolchain(job: Job) -> str:
    """Why ``--tune`` cannot be done although its CPU could be timed; empty where it can or was not asked for."""
    if job.target.name != _TARGET or not job.context.options.tuning.wanted:
        return ""
    if cannot_tune(job.where, job.context.options.cpus) or find(TOOLCHAIN) is not None:
        return ""
    return (
        f"--tune cannot be done: the toolchain {TOOLCHAIN} is not installed; get it with `{install_command(TOOLCHAIN)}`"
    )


def cannot_tune(where: Where, cpus: Mapping[str, str]) -> str:
    """Why kernels for the CPU of ``where`` cannot be timed; empty where they can."""
    platform, name = where.platform, cpus.get(where.platform, "")
    if where.args is not None and where.args["kind"] == "device":
        return ""
    if platform == host_platform() and not name:
        return ""
    cpu = f"{platform} {cpu_of(platform, name).name}"
    return (
        f"tuning needs a device with the CPU it is for ({cpu}), and none was given with --device; what an earlier run "
        "or --tuning-db has for that CPU is used, since times of this host or of an emulator say nothing about it"
    )


def run_tuning(job: Job, route: Route, graph: Graph) -> Ended:
    """Run the worker; it keeps what it measured whatever ends it."""
    context, tuning = job.context, job.context.options.tuning
    folder = context.work / "builds" / f"{job.label}-tune-{graph.route}"
    folder.mkdir(parents=True)
    budget = {"trials": tuning.trials, "seconds": tuning.seconds, **tuning_databases(tuning)}
    most = (tuning.seconds or 0.0) + (tuning.trials or 0) * _SECONDS_PER_TRIAL + context.options.timeout
    return context.run(
        f"{job.label}-tune",
        context.python(_TARGET, TOOLCHAIN),
        "tune",
        build_args(job, route, graph, None, folder) | {"tune": budget, "place": job.where.args},
        lambda text: job.say(f"tuning: {text}"),
        most,
    )


def tuning_words(found: Tuned) -> str:
    """One sentence on a run of tuning."""
    if not found.kernels:
        return (
            f"nothing was tuned: none of the {found.open_sizes} kernels has fixed sizes; give sizes without dimensions "
            "with --input, since schedules are for one size"
        )
    left = f"; {found.open_sizes} more have sizes that are not fixed, and stay as they are" if found.open_sizes else ""
    gain = ""
    if found.cost:
        gain = f", together {found.untuned * 1e3:.3g} ms by the rules and {found.cost * 1e3:.3g} ms with the best"
    earlier = f" after {found.before} of earlier runs" if found.before else ""
    return (
        f"tuned {found.known} of {found.kernels} kernels in {found.trials} trials{earlier} and {found.seconds:.0f} s"
        f"{gain}{left}"
    )

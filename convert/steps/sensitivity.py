"""The sensitivity run of one integer artifact: alone for ``convert sensitivity``, and before ``--auto-mixed``."""

from __future__ import annotations

from convert.errors import StageError
from convert.records import Layer
from convert.serial import from_plain
from convert.steps.job import Built, Job, build_args


def rank_layers(job: Job, base: Built) -> tuple[Layer, ...]:
    """The layers of ``job`` by the noise that each alone adds, worst first.

    Args:
        job: the integer artifact.
        base: the float32 artifact that it is made from, proven.

    Raises:
        StageError: the target cannot rank them, or the worker failed.
    """
    route = next((route for route in job.target.routes(job.precision) if route.needs == "base"), None)
    if route is None:
        raise StageError(f"{job.target.name} makes {job.precision} from no other artifact, so nothing can be ranked")
    folder = job.context.work / "builds" / f"{job.label}-sensitivity"
    folder.mkdir(parents=True)
    job.say("ranking the layers")
    ended = job.context.run(
        f"{job.label}-sensitivity",
        job.context.python(route.toolchain, route.borrows),
        "sensitivity",
        build_args(job, route, None, base, folder),
        job.say,
    )
    if not ended.ok:
        raise StageError(ended.answer.reason, ended.answer.advice)
    return from_plain(tuple[Layer, ...], ended.value["layers"])

"""What the parent process does for ``convert tune``: the source, the graph, and one run of tuning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from convert.context import Context, ToolchainMissing
from convert.errors import ConvertError, InputError
from convert.options import Options
from convert.pipeline import make_golden
from convert.records_tuning import Tuned
from convert.scratch import scratch_context
from convert.serial import from_plain
from convert.steps.export import export_onnx
from convert.steps.job import Job
from convert.steps.places import where
from convert.steps.tune import cannot_tune, run_tuning, tuning_words

_KEPT = "interrupted; what was measured until then is kept, and the same command goes on from there"


class _Interrupted(ConvertError):
    exit_code = 130


def tune_model(options: Options, quiet: bool) -> str:
    """Tune the kernels of the model in ``options``, and give one sentence on what came of it.

    Raises:
        InputError: the model or an option cannot be used, or nothing of it can be tuned here.
        ConvertError: tuning failed.
    """
    try:
        with scratch_context(options, quiet, "tune") as (context, say):
            return _tune(context, say)
    except ToolchainMissing as error:
        raise InputError(str(error)) from error
    except KeyboardInterrupt as error:
        raise _Interrupted(_KEPT) from error


def _tune(context: Context, say: Callable[[str], None]) -> str:
    ((target, precision),) = context.options.work
    places = [where(context, platform) for platform in context.options.platforms]
    for place in places:
        why = cannot_tune(place, context.options.cpus)
        if why:
            raise InputError(why)
    context.python("tvm", "tvm-tuning")  # what is missing is said before the model is run
    golden = make_golden(context, say)
    export, graphs = export_onnx(context, golden, say)
    if not graphs:
        raise ConvertError(f"there is no ONNX graph, from which kernels are tuned: {export.reason}")
    job = Job(context, golden, graphs, export.reason, target, precision, say, where=places[0])
    ended = run_tuning(job, target.routes(precision)[0], graphs[0])
    if not ended.ok:
        raise ConvertError(f"tuning ended early, and what was measured until then is kept: {ended.answer.reason}")
    found = from_plain(Tuned, ended.value)
    if not found.kernels:
        raise InputError(tuning_words(found))
    return f"{tuning_words(found)}; they are in {Path(found.file).stem}"

"""Build candidates and time them on this machine, in processes of their own, since any of them may crash or hang."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from convert.targets.tvm_tuning.kernels import Kernel

_BUILD_SECONDS = 60.0
_RUN_SECONDS = 30.0
#: Each candidate is timed twice for at least so long.
_LEAST_MILLISECONDS = 10
_REPEATS = 2


#: Seconds of the runs of a candidate, or why there are none.
Time = tuple[float, ...] | str


class Measurer(Protocol):
    """Where candidates are timed."""

    def __call__(self, kernels: Sequence[Kernel], modules: Sequence[Any], arguments: Sequence[Any]) -> list[Time]:
        """Time each module.

        Args:
            kernels: the kernel that each is a candidate for.
            modules: the candidates.
            arguments: TVM's notes on the arguments of each.
        """


def builder_of(build: Any = None, export: Any = None) -> Any:
    """TVM's own way to compile in processes that can crash; ``build`` and ``export`` replace its steps."""
    import cloudpickle
    from tvm.s_tir import meta_schedule as ms

    from convert.targets.tvm_schedule import intrinsics
    from convert.targets.tvm_tuning import remote_build

    for module in (intrinsics, remote_build):
        cloudpickle.register_pickle_by_value(module)  # the processes cannot import this project
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ms.builder.LocalBuilder(
        max_workers=count,
        timeout_sec=_BUILD_SECONDS,
        initializer=intrinsics.leave_out_foreign,
        f_build=build,
        f_export=export,
    )


class Local:
    """Candidates are timed here, one after the other, with one thread."""

    def __init__(self, target: Any) -> None:
        """Start the processes."""
        from tvm.s_tir import meta_schedule as ms

        os.environ["TVM_NUM_THREADS"] = "1"
        self._target = target
        self._ms = ms
        config = ms.runner.EvaluatorConfig(number=1, repeat=_REPEATS, min_repeat_ms=_LEAST_MILLISECONDS)
        self._builder = builder_of()
        self._runner = ms.runner.LocalRunner(timeout_sec=_RUN_SECONDS, evaluator_config=config)

    def __call__(self, kernels: Sequence[Kernel], modules: Sequence[Any], arguments: Sequence[Any]) -> list[Time]:
        """See :class:`Measurer`."""
        del kernels
        builder, runner = self._ms.builder, self._ms.runner
        built = self._builder.build([builder.BuilderInput(module, self._target) for module in modules])
        found: list[Time] = [str(one.error_msg) for one in built]
        good = [place for place, one in enumerate(built) if one.error_msg is None]
        inputs = [runner.RunnerInput(built[place].artifact_path, "cpu", arguments[place]) for place in good]
        for place, future in zip(good, self._runner.run(inputs), strict=True):
            found[place] = _seconds(future.result())
        for place in good:
            with contextlib.suppress(OSError):
                shutil.rmtree(Path(str(built[place].artifact_path)).parent)
        return found


def _seconds(result: Any) -> Time:
    if result.run_secs is None:
        return str(result.error_msg)
    return tuple(float(one) for one in result.run_secs)

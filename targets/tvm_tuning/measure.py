"""Build candidates and time them on this machine, in processes of their own, since any of them may crash or hang."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

_BUILD_SECONDS = 60.0
_RUN_SECONDS = 30.0
#: Each candidate is timed twice for at least so long.
_LEAST_MILLISECONDS = 10
_REPEATS = 2


class Measurer(Protocol):
    """Where candidates are timed."""

    def __call__(self, modules: Sequence[Any], arguments: Sequence[Any]) -> list[tuple[float, ...] | str]:
        """Seconds of the runs of each module, or why there are none; ``arguments`` are TVM's notes on its arguments."""


class Local:
    """Candidates are timed here, one after the other, with one thread."""

    def __init__(self, target: Any, workers: int | None = None) -> None:
        """Start the processes; ``workers`` of them compile at a time [default: one for each CPU]."""
        import cloudpickle
        from tvm.s_tir import meta_schedule as ms

        from convert.targets.tvm_tuning import intrinsics

        cloudpickle.register_pickle_by_value(intrinsics)  # the processes cannot import this project
        os.environ["TVM_NUM_THREADS"] = "1"
        self._target = target
        self._ms = ms
        count = workers or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        config = ms.runner.EvaluatorConfig(number=1, repeat=_REPEATS, min_repeat_ms=_LEAST_MILLISECONDS)
        self._builder = ms.builder.LocalBuilder(
            max_workers=count, timeout_sec=_BUILD_SECONDS, initializer=intrinsics.leave_out_foreign
        )
        self._runner = ms.runner.LocalRunner(timeout_sec=_RUN_SECONDS, evaluator_config=config)

    def __call__(self, modules: Sequence[Any], arguments: Sequence[Any]) -> list[tuple[float, ...] | str]:
        """See :class:`Measurer`."""
        builder, runner = self._ms.builder, self._ms.runner
        built = self._builder.build([builder.BuilderInput(module, self._target) for module in modules])
        found: list[tuple[float, ...] | str] = [str(one.error_msg) for one in built]
        good = [place for place, one in enumerate(built) if one.error_msg is None]
        inputs = [runner.RunnerInput(built[place].artifact_path, "cpu", arguments[place]) for place in good]
        for place, future in zip(good, self._runner.run(inputs), strict=True):
            found[place] = _seconds(future.result())
        for place in good:
            with contextlib.suppress(OSError):
                shutil.rmtree(Path(str(built[place].artifact_path)).parent)
        return found


def _seconds(result: Any) -> tuple[float, ...] | str:
    if result.run_secs is None:
        return str(result.error_msg)
    return tuple(float(one) for one in result.run_secs)

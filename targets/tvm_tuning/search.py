"""The search for one kernel: candidates of TVM's evolutionary search, and what it learns from their times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from convert.targets.tvm_tuning.kernels import Kernel
from convert.targets.tvm_tuning.records import Record, Workload

#: Gives the schedules to search in for a kernel, by a function of TVM's ``Schedule``; None for TVM's own rules.
Space = Callable[[Kernel], Callable[[Any], Any] | None]
BATCH = 16
_POPULATION = 64
_ENDLESS = 1 << 20


class Search:
    """One kernel, while schedules for it are looked for."""

    def __init__(self, kernel: Kernel, target: Any, known: Workload, space: Space | None, seed: int) -> None:
        """Begin where ``known`` ends."""
        from tvm.s_tir import meta_schedule as ms

        self._ms = ms
        self._target = target
        own = None if space is None else space(kernel)
        self._context = ms.TuneContext(
            kernel.module,
            target=target,
            space_generator="post-order-apply" if own is None else ms.space_generator.ScheduleFn(own),
            search_strategy=_strategy(ms),
            task_name=kernel.names[0],
            rand_state=seed,
            num_threads=1,
        ).clone()
        self._database = ms.database.MemoryDatabase()
        self._workload = self._database.commit_workload(kernel.module)
        self._model = ms.cost_model.XGBModel(num_tuning_cores=1)
        for record in known.records:
            self._restore(record)
        self._context.pre_tuning(_ENDLESS, BATCH, None, self._database, self._model)

    def candidates(self, most: int) -> list[Any]:
        """At most ``most`` schedules that were not measured yet; none when there are no more."""
        found = self._context.generate_measure_candidates()
        return [] if found is None else list(found)[:most]

    def learn(self, candidates: Sequence[Any], times: Sequence[tuple[float, ...] | str]) -> list[Record]:
        """Take in what was measured, and give the records of those that ran."""
        ms = self._ms
        results = [_result(ms, one) for one in times]
        records = []
        for candidate, seconds in zip(candidates, times, strict=True):
            if not isinstance(seconds, str):
                record = ms.database.TuningRecord(
                    candidate.sch.trace, self._workload, list(seconds), self._target, candidate.args_info
                )
                self._database.commit_tuning_record(record)
                records.append(Record(record.as_json()[0], seconds))
        self._context.notify_runner_results(list(candidates), results)
        self._model.update(self._context, list(candidates), results)
        return records

    def _restore(self, record: Record) -> None:
        """Let the search start from a schedule of the database."""
        raw = [record.trace, list(record.seconds), dict(self._target.export()), None]
        found = self._ms.database.TuningRecord.from_json(raw, self._workload)
        self._database.commit_tuning_record(found)


def _strategy(ms: Any) -> Any:
    return ms.search_strategy.EvolutionarySearch(
        population_size=_POPULATION,
        init_measured_ratio=0.2,
        init_min_unmeasured=BATCH,
        max_fail_count=5,
        genetic_num_iters=3,
        genetic_mutate_prob=0.85,
        genetic_max_fail_count=10,
        eps_greedy=0.1,
    )


def _result(ms: Any, seconds: tuple[float, ...] | str) -> Any:
    if isinstance(seconds, str):
        return ms.runner.RunnerResult(None, seconds)
    return ms.runner.RunnerResult(list(seconds), None)


def arguments_of(module: Any) -> Any:
    """TVM's notes on the arguments of a kernel alone."""
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo

    return ArgInfo.from_entry_func(module, remove_preproc=True)

"""One run of tuning in a worker: the kernels of a model, the database that they are kept in, and what to say of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from convert.records_tuning import Tuned
from convert.targets.tvm_schedule.intrinsics import leave_out_foreign
from convert.targets.tvm_tuning.budget import Budget
from convert.targets.tvm_tuning.build import known_schedules
from convert.targets.tvm_tuning.database import file_of, update
from convert.targets.tvm_tuning.identity import for_search, identity_of
from convert.targets.tvm_tuning.kernels import kernels_of, lowered, set_of
from convert.targets.tvm_tuning.loop import Tuner
from convert.targets.tvm_tuning.measure import Measurer
from convert.targets.tvm_tuning.records import Records, Spent, Workload
from convert.targets.tvm_tuning.search import Space


def tune(
    module: Any,
    target: Any,
    asked: Mapping[str, Any],
    say: Callable[[str], None],
    measure: Callable[[], Measurer],
    space: Space | None = None,
) -> Tuned:
    """Look for schedules for the kernels of ``module``, and keep each batch of what was measured.

    Args:
        module: of Relax, as the front end gave it.
        target: TVM's target.
        asked: ``trials`` or ``seconds``; ``folder`` of databases, and ``file`` of a further one to begin with.
        say: is told what is being done.
        measure: gives where candidates are timed; is asked only if there are any.
        space: where schedules come from; None for TVM's own rules.
    """
    leave_out_foreign()
    identity = identity_of(target)
    kernels, open_sizes = kernels_of(lowered(module, target))
    file, name = file_of(Path(asked["folder"]), identity), set_of(kernels)
    known, _ = known_schedules(identity, asked)
    before = known.spent.get(name, Spent())
    budget = Budget(asked.get("trials"), asked.get("seconds"), before)

    def keep(key: str, more: Workload, trials: int) -> None:
        def change(records: Records) -> None:
            workload = records.workloads.setdefault(key, Workload())
            workload.add(more)
            workload.trials += trials
            records.spent[name] = Spent(before.trials + budget.done, before.seconds + budget.elapsed)

        update(file, identity, change)

    if kernels and budget.left:
        Tuner(kernels, for_search(target), known.workloads, budget, measure(), keep, say, space).run()
    return _summary(kernels, open_sizes, known_schedules(identity, asked)[0], budget, file)


def _summary(kernels: Any, open_sizes: int, records: Records, budget: Budget, file: Path) -> Tuned:
    cost = untuned = 0.0
    known = 0
    for kernel in kernels:
        workload = records.workloads.get(kernel.key, Workload())
        known += bool(workload.records)
        if workload.untuned is not None:
            untuned += kernel.calls * workload.untuned
            cost += kernel.calls * min([workload.untuned, *(record.cost for record in workload.records)])
    seconds = round(budget.elapsed, 1)
    return Tuned(len(kernels), open_sizes, known, budget.done, seconds, budget.before.trials, cost, untuned, str(file))

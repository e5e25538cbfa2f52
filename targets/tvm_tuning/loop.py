"""Tune the kernels of a model: which one next, for how long, and what is kept at every step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from convert.targets.tvm_tuning.budget import Budget
from convert.targets.tvm_tuning.kernels import Kernel, by_rules
from convert.targets.tvm_tuning.measure import Measurer
from convert.targets.tvm_tuning.records import Workload
from convert.targets.tvm_tuning.search import BATCH, Search, Space, arguments_of

Say = Callable[[str], None]
#: Gets what became known of a kernel, with the trials and seconds that it took; must keep it for good.
Keep = Callable[[str, Workload, int], None]
#: Halves the claim of a kernel for each batch that brought nothing.
_PATIENCE = 0.5
_GAIN = 0.98
#: A kernel below this share of the whole time is not worth a batch.
_LEAST_SHARE = 0.002


@dataclass
class _Task:
    kernel: Kernel
    known: Workload
    search: Search | None = None
    idle: int = 0
    exhausted: bool = False

    @property
    def cost(self) -> float:
        """Seconds that one run of the model spends in it, with the best schedule so far."""
        known = [record.cost for record in self.known.records[:1]]
        known += [] if self.known.untuned is None else [self.known.untuned]
        return self.kernel.calls * min(known) if known else 0.0

    @property
    def claim(self) -> float:
        """How much it deserves the next batch; one that could not be timed as it is, since it is slow, comes first."""
        if self.exhausted:
            return 0.0
        if not self.cost:
            return 0.0 if self.idle else math.inf
        return self.cost * _PATIENCE**self.idle


@dataclass
class Tuner:
    """One run of tuning.

    Attributes:
        known: what is known of each kernel beforehand.
        measure: where candidates are timed.
        keep: see ``Keep``.
        space: where schedules come from; None for TVM's own rules.
    """

    kernels: Sequence[Kernel]
    target: Any
    known: Mapping[str, Workload]
    budget: Budget
    measure: Measurer
    keep: Keep
    say: Say
    space: Space | None = None
    _tasks: list[_Task] = field(default_factory=list)

    def run(self) -> None:
        """Tune until the budget is spent or nothing is left to try."""
        self._tasks = [_Task(one, self.known.get(one.key) or Workload()) for one in self.kernels if one.calls]
        if self.budget.left:
            self._time_rules([task for task in self._tasks if task.known.untuned is None])
        while self.budget.left:
            task = max(self._tasks, key=lambda one: one.claim, default=None)
            total = sum(one.cost for one in self._tasks)
            if task is None or task.claim <= _LEAST_SHARE * total * _PATIENCE**4:
                break
            self._round(task)
        # A schedule was timed many times in all, the rule once; who is faster must not hang on one disturbed moment.
        if self.budget.done:
            self._time_rules([task for task in self._tasks if task.search is not None and task.known.records])

    def _time_rules(self, tasks: Sequence[_Task]) -> None:
        for start in range(0, len(tasks), BATCH):
            some = tasks[start : start + BATCH]
            self.say(f"timing {start + 1} to {start + len(some)} of {len(tasks)} kernels as the rules make them")
            kernels = [task.kernel for task in some]
            modules = [by_rules(kernel, self.target) for kernel in kernels]
            times = self.measure(kernels, modules, [arguments_of(one.module) for one in kernels])
            for task, seconds in zip(some, times, strict=True):
                if not isinstance(seconds, str):
                    self._learned(task, Workload(untuned=min(seconds)), 0)

    def _round(self, task: _Task) -> None:
        place = self._tasks.index(task) + 1
        self.say(
            f"kernel {place} of {len(self._tasks)} ({task.kernel.names[0]}): {self.budget.describe()}; "
            f"all kernels {sum(one.cost for one in self._tasks) * 1e3:.3g} ms"
        )
        if task.search is None:
            task.search = Search(task.kernel, self.target, task.known, self.space, seed=place)
        candidates = task.search.candidates(min(BATCH, self.budget.left))
        if not candidates:
            task.exhausted = True
            return
        modules, arguments = [one.sch.mod for one in candidates], [one.args_info for one in candidates]
        times = self.measure([task.kernel] * len(candidates), modules, arguments)
        before = task.cost
        self.budget.done += len(candidates)
        self._learned(task, Workload(records=task.search.learn(candidates, times)), len(candidates))
        task.idle = 0 if task.cost and (not before or task.cost < before * _GAIN) else task.idle + 1

    def _learned(self, task: _Task, more: Workload, trials: int) -> None:
        more.name, more.shapes = task.kernel.names[0], task.kernel.shapes
        task.known.add(more)
        self.keep(task.kernel.key, more, trials)

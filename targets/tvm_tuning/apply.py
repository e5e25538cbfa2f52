"""Put the schedules of a database into a lowered module, each only after it was compared with the kernel without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from convert.targets.tvm_schedule.proof import Trial, Verdict, verdicts
from convert.targets.tvm_tuning.kernels import Kernel, in_place_of, kernels_of
from convert.targets.tvm_tuning.records import Record, Records

#: Schedules of one kernel that are tried when the best is wrong.
_TRIES = 3


@dataclass(frozen=True)
class Applied:
    """A kernel with a schedule: seconds of one call with and without, as measured when it was tuned."""

    kernel: str
    key: str
    seconds: float
    untuned: float | None
    error: float | None


@dataclass(frozen=True)
class Dropped:
    """A schedule that was not used, and why."""

    kernel: str
    key: str
    reason: str


@dataclass
class Report:
    """What became of the kernels of a module.

    Attributes:
        kernels: how many there are; ``open_sizes`` more have sizes that are not fixed.
        applied: those with a schedule.
        dropped: schedules that were wrong.
        slower: kernels that the database has nothing faster for than what they are.
        skipped: entries of databases that could not be used.
    """

    kernels: int = 0
    open_sizes: int = 0
    applied: list[Applied] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    slower: int = 0
    skipped: int = 0

    def plain(self) -> dict[str, Any]:
        """The same as JSON can hold it, for the manifest."""
        return asdict(self)


def tuned(module: Any, target: Any, database: Records) -> tuple[Any, Report]:
    """``module`` with the schedules of ``database`` for its kernels; the other kernels stay as they are.

    Args:
        module: of Relax, lowered to kernels.
        target: TVM's target that it is compiled for.
        database: of the same target.
    """
    kernels, open_sizes = kernels_of(module)
    report = Report(len(kernels), open_sizes, skipped=database.skipped)
    offers = {kernel.key: _offer(kernel, database, report) for kernel in kernels}
    for turn in range(_TRIES):
        open_ones = [kernel for kernel in kernels if len(offers[kernel.key]) > turn]
        trials = {one.key: Trial(one.function, trace=offers[one.key][turn].trace) for one in open_ones}
        found = verdicts(trials, target)
        for kernel in open_ones:
            verdict, record = found[kernel.key], offers[kernel.key][turn]
            if verdict.reason:
                report.dropped.append(Dropped(kernel.names[0], kernel.key, verdict.reason))
                continue
            offers[kernel.key] = []
            module = _replaced(module, kernel, verdict)
            report.applied.append(_applied(kernel, database, record, verdict))
    return module, report


def _offer(kernel: Kernel, database: Records, report: Report) -> Sequence[Record]:
    """The schedules to try for a kernel, best first."""
    known = database.workloads.get(kernel.key)
    if known is None or not known.records:
        return []
    faster = [one for one in known.records if known.untuned is None or one.cost < known.untuned]
    report.slower += not faster
    return faster[:_TRIES]


def _replaced(module: Any, kernel: Kernel, verdict: Verdict) -> Any:
    import tvm

    made = tvm.IRModule(dict(module.functions), attrs=module.attrs)
    for name in kernel.names:
        where = module.get_global_var(name)
        made.update_func(where, in_place_of(module[where], verdict.after))
    return made


def _applied(kernel: Kernel, database: Records, record: Record, verdict: Verdict) -> Applied:
    return Applied(kernel.names[0], kernel.key, record.cost, database.workloads[kernel.key].untuned, verdict.share)

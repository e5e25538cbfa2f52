"""Schedule a module: relayout, one rule per kernel, a comparison of each, and a report of what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from convert.targets.tvm_schedule import blocks
from convert.targets.tvm_schedule.layout import fused, relaid
from convert.targets.tvm_schedule.proof import Trial, verdicts
from convert.targets.tvm_schedule.registers import Registers, registers_of
from convert.targets.tvm_schedule.report import Kernel, Report, first_line
from convert.targets.tvm_schedule.rules import RULES, Rule, rule_for

#: Tells TVM's fusion to leave a kernel alone (relax/op_attr_types.h: kOpaque).
PATTERN, OPAQUE = "op_pattern", 8
#: On a kernel that has its schedule already.
TUNED = "tirx.is_scheduled"
#: Gives the module with schedules for some of its kernels, which then carry ``TUNED``.
Tuned = Callable[[Any], Any]


def scheduled(
    module: Any, target: Any, rules: Mapping[str, Rule] = RULES, tuned: Tuned | None = None
) -> tuple[Any, Report]:
    """``module`` with its kernels scheduled for the CPU ``target``, ready for ``tvm.compile``.

    Every kernel is run on this machine, before and after, and the rule's result is dropped where the two differ. A rule
    for another CPU is compared with that CPU's parameters. Nothing is raised: where a step fails, less is scheduled.

    Args:
        module: an ``IRModule`` of Relax, weights inside.
        target: ``tvm.target.Target`` of kind llvm.
        rules: by the names that kernels carry.
        tuned: puts schedules that were found by measuring into the lowered module; the rules are for what it leaves.

    Returns:
        The module, and what became of each kernel.
    """
    lowered, problem = lowered_for(module, target)
    if lowered is None:
        return module, Report(problem=problem)
    try:
        lowered, failed = (lowered, "") if tuned is None else _tuned(lowered, tuned)
        problem = "; ".join(part for part in (problem, failed) if part)
        return _all_scheduled(lowered, target, rules, problem)
    except Exception as error:
        return module, Report(problem=f"no kernel could be scheduled: {first_line(error)}")


def lowered_for(module: Any, target: Any) -> tuple[Any, str]:
    """Kernels in the layout of the rules; in the module's own where that fails, and None where that fails too.

    The second value says what failed.
    """
    registers = registers_of(target)
    attempts: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("images stay as they were", lambda: relaid(module, registers)),
        ("weights stay as they were", lambda: relaid(module, registers, images=False)),
        ("no kernels could be made", lambda: module),
    )
    problem = ""
    for consequence, attempt in attempts:
        try:
            return fused(attempt(), target), problem
        except Exception as error:  # whatever TVM's passes raise
            problem = f"{consequence}: {first_line(error)}"
    return None, problem


def _tuned(module: Any, tuned: Tuned) -> tuple[Any, str]:
    try:
        return tuned(module), ""
    except Exception as error:
        return module, f"nothing that was tuned is used: {first_line(error)}"


def _all_scheduled(module: Any, target: Any, rules: Mapping[str, Rule], problem: str) -> tuple[Any, Report]:
    from tvm import tirx

    registers = registers_of(target)
    kernels: list[Kernel] = []
    trials: dict[str, Trial] = {}
    for name, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc):
            kernel, after = _one(str(name.name_hint), function, registers, rules)
            kernels.append(kernel)
            if after is not None:
                trials[kernel.name] = Trial(function, after)
    wrong = {name: verdict.reason for name, verdict in verdicts(trials, target).items() if verdict.reason}
    taken = {name: trial.after for name, trial in trials.items() if name not in wrong}
    report = [Kernel(one.name, one.rule, one.parameters, wrong.get(one.name, one.dropped)) for one in kernels]
    return _with(module, taken), Report(tuple(report), problem)


def _one(name: str, function: Any, registers: Registers, rules: Mapping[str, Rule]) -> tuple[Kernel, Any]:
    from tvm import relax, s_tir

    if function.attrs and function.attrs.get(TUNED, False):
        return Kernel(name, "tuned"), None
    # TVM makes a view of a reshape, and would not know it again.
    if relax.analysis.has_reshape_pattern(function):
        return Kernel(name, "none"), None
    schedule = s_tir.Schedule(function)
    if not blocks.whole(schedule):  # loops of their own, such as those of a recurrent layer
        return Kernel(name, "none"), None
    rule = "none"
    try:
        rule = rule_for(schedule)
        parameters = rules[rule](schedule, registers)
        return Kernel(name, rule, parameters), schedule.mod["main"]
    except Exception as error:
        return Kernel(name, rule, dropped=f"cannot be applied: {first_line(error)}"), None


def ruled(function: Any, target: Any, rules: Mapping[str, Rule] = RULES) -> Any:
    """The kernel as the rules make it; as it is where none fits or its rule fails."""
    try:
        found = _one("", function, registers_of(target), rules)[1]
    except Exception:  # as builds do: such a kernel stays as it is
        return function
    return function if found is None else found


def _with(module: Any, taken: Mapping[str, Any]) -> Any:
    """The module with these kernels in place of its own; fusion leaves all of them alone from now on."""
    from tvm import tirx

    made = module.clone() if hasattr(module, "clone") else module
    for name, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc):
            kernel = taken.get(str(name.name_hint), function)
            made.update_func(name, kernel.with_attr(PATTERN, OPAQUE))
    return made

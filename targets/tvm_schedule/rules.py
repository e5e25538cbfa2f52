"""Which rule is for which kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from convert.targets.tvm_schedule import blocks
from convert.targets.tvm_schedule.marks import rule_of
from convert.targets.tvm_schedule.registers import Registers
from convert.targets.tvm_schedule.rules_depthwise import schedule_depthwise
from convert.targets.tvm_schedule.rules_gemm import schedule_gemm
from convert.targets.tvm_schedule.rules_plain import schedule_plain

#: Takes a schedule and the registers, changes the schedule and returns the parameters, as JSON.
Rule = Callable[[Any, Registers], Mapping[str, Any]]
PLAIN = "default"


def _gemm(schedule: Any, registers: Registers) -> Mapping[str, Any]:
    del registers  # the tile was chosen when the weights were packed
    return schedule_gemm(schedule)


def _depthwise(schedule: Any, registers: Registers) -> Mapping[str, Any]:
    del registers
    return schedule_depthwise(schedule)


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("conv2d-1x1", "conv2d", "conv2d-grouped", "conv2d-transposed", "dense", "matmul"), _gemm),
    "depthwise": _depthwise,
    PLAIN: schedule_plain,
}


def rule_for(schedule: Any) -> str:
    """The rule that a block of the kernel names, else the one for everything."""
    named = [rule_of(schedule.get(block)) for block in blocks.blocks(schedule)]
    return next((name for name in named if name), PLAIN)

"""Operators that are spelled out in simpler ones, and those that are fine only with certain arguments."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from convert.qat.plan import Kind, Ref, Step


def spelled_out(step: Step) -> list[Step]:
    """The operators that the converter makes of ``step``, so that every value in between has a range too."""
    made = {"silu": _silu, "hardsigmoid": _hardsigmoid, "div": _div}.get(step.operator)
    return [step] if made is None else made(step)


def _silu(step: Step) -> list[Step]:
    gate = Step(f"{step.name}_gate", Kind.FIXED, "aten.sigmoid.default", step.args[:1])
    return [gate, Step(step.name, Kind.COMPUTE, "aten.mul.Tensor", (step.args[0], Ref(gate.name)))]


def _hardsigmoid(step: Step) -> list[Step]:
    up = Step(f"{step.name}_up", Kind.COMPUTE, "aten.add.Tensor", (step.args[0], 3.0))
    clip = Step(f"{step.name}_clip", Kind.ACTIVATION, "aten.hardtanh.default", (Ref(up.name), 0.0, 6.0))
    return [up, clip, Step(step.name, Kind.COMPUTE, "aten.mul.Tensor", (Ref(clip.name), 1 / 6))]


def _div(step: Step) -> list[Step]:
    if not isinstance(step.args[1], int | float) or step.kwargs:
        return [step]  # refused as it is
    return [Step(step.name, Kind.COMPUTE, "aten.mul.Tensor", (step.args[0], 1 / step.args[1]))]


def problem_with(step: Step, constants: Container[str]) -> str:
    """Why ``step`` cannot be prepared with these arguments, as the end of a sentence; empty if it can."""
    check = {
        "conv2d": _layer,
        "linear": _layer,
        "hardtanh": _hardtanh,
        "add": _binary,
        "sub": _binary,
        "mul": _binary,
        "adaptive_avg_pool2d": _adaptive,
        "pad": _pad,
        "constant_pad_nd": _pad,
        "cat": _all_computed,
        "getitem": _getitem,
    }.get(step.operator)
    if check is None:
        return "" if _computed(step.args[0], constants) else "with a weight as its input; leave it out of forward"
    return check(step, constants)


def _argument(step: Step, position: int, name: str, default: Any) -> Any:
    return step.args[position] if len(step.args) > position else step.kwargs.get(name, default)


def _computed(value: Any, constants: Container[str]) -> bool:
    return isinstance(value, Ref) and value.name not in constants


def _layer(step: Step, constants: Container[str]) -> str:
    bias = _argument(step, 2, "bias", None)
    for value in (step.args[1], *([] if bias is None else [bias])):
        if not isinstance(value, Ref) or value.name not in constants:
            return "with a weight that is computed in forward; make it a plain parameter (remove_parametrizations)"
    return "" if _computed(step.args[0], constants) else "with a weight as its input; leave it out of forward"


def _hardtanh(step: Step, constants: Container[str]) -> str:
    bounds = (float(_argument(step, 1, "min_val", -1.0)), float(_argument(step, 2, "max_val", 1.0)))
    return "" if bounds in ((0.0, 6.0), (-1.0, 1.0)) else f"with the bounds {bounds[0]:g} and {bounds[1]:g}; use ReLU6"


def _binary(step: Step, constants: Container[str]) -> str:
    if step.kwargs.get("alpha", 1) != 1:
        return "with alpha; multiply first"
    if not any(_computed(value, constants) for value in step.args[:2]):
        return "of weights alone; compute that beforehand"
    return ""


def _adaptive(step: Step, constants: Container[str]) -> str:
    size = step.args[1]
    ones = size in (1, [1, 1], (1, 1))
    return "" if ones else f"to the size {size}; use 1, or AvgPool2d"


def _pad(step: Step, constants: Container[str]) -> str:
    mode = _argument(step, 2, "mode", "constant") if step.operator == "pad" else "constant"
    value = _argument(step, 3 if step.operator == "pad" else 2, "value", 0)
    return "" if mode == "constant" and not value else f"with {mode} {value or ''}; pad with zeros".replace("  ", " ")


def _all_computed(step: Step, constants: Container[str]) -> str:
    fine = all(_computed(value, constants) for value in step.args[0])
    return "" if fine else "with a weight among its inputs; leave it out of forward"


def _getitem(step: Step, constants: Container[str]) -> str:
    return "" if _computed(step.args[0], constants) else "of a weight; compute that beforehand"

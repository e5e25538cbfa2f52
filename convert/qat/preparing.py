"""``convert.qat.prepare``: from a trained model to a module that learns to live with integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from convert.errors import InputError
from convert.qat.fold import fold
from convert.qat.module import RANGES, QatModule
from convert.qat.plan import Kind, find_scales, require_quantizable
from convert.qat.trace import Traced, trace

#: The recorded and folded graph may differ from the model by rounding, and by no more.
_CLOSE = 1e-3


def prepare(model: Any, example_inputs: Any, *, averaging: float = 0.95) -> QatModule:
    """Give a copy of ``model`` with fake quantization, ready to be trained; the model itself stays as it is.

    Args:
        model: a trained ``torch.nn.Module``, or an exported program of one in eval mode.
        example_inputs: a tensor, or a tuple of one tensor per input of ``forward``. The first axis is the batch, which
            may have any size afterwards where the model allows that.
        averaging: how much of a range stays at each step of training; the rest is that of the batch.

    Raises:
        InputError: the model cannot be recorded, takes something other than float tensors, or has an operator without
            an int8 counterpart.
    """
    if not 0 <= averaging < 1:
        raise InputError(f"averaging is {averaging}; give a number from 0 up to but not including 1")
    traced = trace(model, _examples(example_inputs))
    folded = fold(traced.steps, traced.outputs, traced.ranks, traced.tensors)
    require_quantizable(folded.steps, folded.outputs)
    constants = {step.path: _own(traced.tensors[step.path]) for step in folded.steps if step.kind is Kind.CONSTANT}
    clash = [path for path in (*folded.layers, *constants) if path.split(".")[0] == RANGES]
    if clash:
        raise InputError(f"the model has a part called {RANGES}, where the ranges would lie; rename it")
    scales = find_scales(folded.steps, folded.outputs)
    made = QatModule(folded.steps, folded.outputs, scales, folded.layers, constants, averaging)
    made.qat_out_spec, made.qat_example, made.qat_dynamic = traced.out_spec, traced.example, traced.dynamic
    _require_same(made, model, traced)
    made.train()
    return made


def _examples(given: Any) -> tuple[Tensor, ...]:
    values = (given,) if isinstance(given, Tensor) else given
    if isinstance(values, Mapping) or not isinstance(values, Sequence) or not values:
        raise InputError(f"example_inputs is a {type(given).__name__}; give a tensor or a tuple of tensors")
    for value in values:
        if not isinstance(value, Tensor):
            raise InputError(f"example_inputs holds a {type(value).__name__}; give a tensor or a tuple of tensors")
    return tuple(value.detach().clone() for value in values)


def _own(value: Tensor) -> Tensor:
    copied = value.detach().clone()
    return nn.Parameter(copied) if isinstance(value, nn.Parameter) else copied


def _require_same(made: QatModule, model: Any, traced: Traced) -> None:
    """Refuse a graph that does not compute what the model does, whatever the reason."""
    program = isinstance(model, torch.export.ExportedProgram)
    runs = model.module(check_guards=False) if program else model
    training = not program and model.training
    if not program:
        runs.eval()
    try:
        with torch.no_grad(), made.qat_exact():
            made.eval()
            wanted = torch.utils._pytree.tree_leaves(runs(*traced.example))
            found = torch.utils._pytree.tree_leaves(made(*traced.example))
    finally:
        if not program:
            runs.train(training)
    for name, one, other in zip(made.qat_outputs, wanted, found, strict=True):
        error = float((one - other).abs().max() / one.abs().max().clamp_min(1e-6))
        if not error < _CLOSE:
            raise InputError(
                f"the recorded graph differs from the model in {name} by {error:.1g} of its largest value, perhaps "
                "since forward changes tensors in place or depends on their values; write it without"
            )

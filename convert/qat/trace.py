"""Recording a module: ``torch.export`` in eval mode, whose graph has one spelling per operator."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from convert.errors import InputError
from convert.qat.plan import Step
from convert.qat.reader import Reader


@dataclass(frozen=True)
class Traced:
    """A recorded module.

    Attributes:
        steps: in the order in which they run; numbers and constants among them.
        outputs: names of the steps that the graph gives, flat.
        ranks: number of axes of what a step gives, for those that give one tensor.
        tensors: weights and buffers by their name in the module.
        out_spec: how torch nests the outputs.
        example: the inputs, flat.
        dynamic: axis -> its symbol, for each input.
    """

    steps: list[Step]
    outputs: list[str]
    ranks: dict[str, int]
    tensors: dict[str, Tensor]
    out_spec: Any
    example: tuple[Tensor, ...]
    dynamic: tuple[dict[int, str], ...]


def trace(model: Any, example: Sequence[Tensor]) -> Traced:
    """Record ``model`` (a module or an exported program) on ``example``, with any batch size where it allows that.

    Raises:
        InputError: torch.export cannot record it, or it has an operator that cannot be prepared.
    """
    program, example = _exported(model, example)
    graph = program.module(check_guards=False).graph
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    if len(inputs) != len(example):
        raise InputError(
            f"the model takes {len(inputs)} tensors, and {len(example)} examples were given; give one each"
        )
    for node, value in zip(inputs, example, strict=True):
        if not value.dtype.is_floating_point:
            kind = str(value.dtype).removeprefix("torch.")
            raise InputError(
                f"input {node.name} is {kind}; only models that take floats can be prepared for int8 training"
            )
    reader = Reader(graph)
    steps, outputs = reader.read()
    tensors = {**program.state_dict, **program.constants}
    dynamic = tuple(_symbols(node.meta["val"]) for node in inputs)
    return Traced(steps, outputs, reader.ranks, tensors, program.call_spec.out_spec, tuple(example), dynamic)


def _symbols(value: Any) -> dict[int, str]:
    return {axis: str(size) for axis, size in enumerate(value.shape) if not isinstance(size, int)}


def _exported(model: Any, example: Sequence[Tensor]) -> tuple[Any, tuple[Tensor, ...]]:
    if isinstance(model, torch.export.ExportedProgram):
        return model, tuple(example)
    if not isinstance(model, torch.nn.Module) or isinstance(model, torch.jit.ScriptModule):
        raise InputError(f"a {type(model).__name__} cannot be prepared; give a torch.nn.Module or an exported program")
    model = copy.deepcopy(model).eval()
    rows = _two_rows(example)
    try:
        return _export(model, rows, dynamic=True), rows
    except Exception as error:  # of many types; if the batch is what cannot change, it stays as in the example
        why = f"{type(error).__name__}: {_first_line(error)}"
    try:
        return _export(model, tuple(example), dynamic=False), tuple(example)
    except Exception as error:
        raise InputError(
            f"{type(model).__name__} cannot be prepared, since torch.export cannot record it ({why}); take out what "
            "depends on values, such as `if x.sum() > 0`"
        ) from error


def _first_line(error: Exception) -> str:
    return next((line.strip()[:200] for line in str(error).splitlines() if line.strip()), "no message")


def _two_rows(example: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """torch.export takes a batch of one for a constant."""
    alone = all(value.dim() and value.shape[0] == 1 for value in example)
    return tuple(torch.cat([value, value]) for value in example) if alone else tuple(example)


def _export(model: Any, example: tuple[Tensor, ...], *, dynamic: bool) -> Any:
    axes = [{0: torch.export.Dim.AUTO} if dynamic and value.dim() else {} for value in example]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(model, example, dynamic_shapes=shapes_for(model, axes))


def shapes_for(model: Any, axes: Sequence[dict[int, Any]]) -> Any:
    """``axes`` of every input, nested as torch.export wants them for the signature of ``model``."""
    parameters = inspect.signature(model.forward).parameters.values()
    return (tuple(axes),) if any(item.kind is item.VAR_POSITIONAL for item in parameters) else tuple(axes)

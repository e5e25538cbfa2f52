"""Making a model fit for an exporter: TorchScript has to go to each of them in another form."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from convert.errors import StageError
from convert.models.factory import one_line
from convert.models.flatten import FlatModule
from convert.models.load import Loaded
from convert.models.run import CallPlan


def for_trace(loaded: Loaded, plan: CallPlan, tensors: Sequence[Any]) -> Any:
    """The flat module for ``torch.onnx.export(dynamo=False)``.

    That exporter traces; it cannot trace into TorchScript, but takes a module that was traced before, with the
    script's own branches and loops kept.

    Args:
        loaded: the model.
        plan: how its inputs reach it.
        tensors: an example of every input of ``plan``.

    Raises:
        StageError: tracing failed.
    """
    flat = FlatModule(loaded.module, plan)
    return _traced(flat, tensors) if loaded.script else flat


def _traced(flat: Any, tensors: Sequence[Any]) -> Any:
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch.jit is on its way out; files of its kind are not
            return torch.jit.trace(flat, tuple(tensors), strict=False, check_trace=False)
    except Exception as error:
        raise StageError(f"the TorchScript module cannot be traced: {one_line(error)}") from error


def for_export(loaded: Loaded, plan: CallPlan, tensors: Sequence[Any]) -> Any:
    """The flat module for ``torch.export.export``, and so for every exporter that builds on it.

    ``torch.export`` freezes every size that passes through TorchScript, so that is turned into a program first.

    Args:
        loaded: the model.
        plan: how its inputs reach it.
        tensors: an example of every input of ``plan``.

    Raises:
        StageError: torch's converter does not know something in the TorchScript.
    """
    flat = FlatModule(loaded.module, plan)
    if not loaded.script:
        return flat
    if set(plan.inputs) == set(loaded.parameter_names):
        return FlatModule(_program(loaded.module, *plan.arrange(tensors)), plan)
    # The converter wants an argument for every parameter, and knows only tensors; a trace has no other parameters.
    program = _program(_traced(flat, tensors), tuple(tensors), {})
    return FlatModule(program, CallPlan(plan.inputs, lambda given: (tuple(given), {})))


def _program(script: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        from torch._export.converter import TS2EPConverter

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return TS2EPConverter(script, args, kwargs).convert().module()
    except Exception as error:
        raise StageError(f"the TorchScript module cannot be turned into a program: {one_line(error)}") from error

"""Flattening whatever a module returns into named tensors, and a module that takes and returns only tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from convert.errors import StageError


def flatten(value: Any) -> list[tuple[str, Any]]:
    """Names and tensors of what a module returned, in order.

    A single tensor is ``output``; items of a tuple or list are ``output_0``, ``output_1``; a mapping gives its keys,
    a named tuple or dataclass its fields; nested names are joined by dots (``boxes.0``). None is left out, and the
    numbers of the others stay as they are.

    Raises:
        StageError: there is something else than a tensor among them, or no tensor at all.
    """
    named = list(_walk(value, ""))
    if not named:
        raise StageError("the model returns no tensor", "return at least one tensor from forward")
    return _distinct(named)


def name_outputs(names: Sequence[str], inputs: Sequence[str]) -> list[str]:
    """Output names that differ from all input names: one that is taken gets ``_out`` appended."""
    taken = set(inputs) | set(names)
    result = []
    for name in names:
        free = name
        if name in inputs:
            while free in taken:
                free += "_out"
            taken.add(free)
        result.append(free)
    return result


def _walk(value: Any, prefix: str) -> Iterable[tuple[str, Any]]:
    if value is None:
        return
    if _is_tensor(value):
        yield prefix or "output", value
        return
    fields = _fields(value)
    if fields is not None:
        for name, item in fields:
            yield from _walk(item, f"{prefix}.{name}" if prefix else name)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _walk(item, f"{prefix}.{index}" if prefix else f"output_{index}")
    else:
        raise StageError(
            f"the model's output {prefix or 'output'} is a {type(value).__name__} ({str(value)[:40]}) and no tensor",
            "return tensors only, for example through a small wrapper module",
        )


def _fields(value: Any) -> list[tuple[str, Any]] | None:
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in value.items()]
    if hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(item.name, getattr(value, item.name)) for item in dataclasses.fields(value)]
    return None


def _is_tensor(value: Any) -> bool:
    import numpy as np
    import torch

    return isinstance(value, torch.Tensor | np.ndarray)


def _distinct(named: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Give a second output of the same name (``{"a.b": …, "a": {"b": …}}``) a number."""
    taken = {name for name, _ in named}
    seen: set[str] = set()
    result = []
    for name, value in named:
        free, number = name, 2
        while free in seen or (free != name and free in taken):
            free, number = f"{name}_{number}", number + 1
        seen.add(free)
        result.append((free, value))
    return result


def FlatModule(module: Any, plan: Any) -> Any:  # noqa: N802  (it stands for a class, made once torch is there)
    """Wrap ``module`` for an exporter: tensors in, in the order of ``plan.inputs``; a tuple of flat tensors out.

    An output that is also an input, or stands there twice, becomes a copy: exporters drop or merge those otherwise.

    Args:
        module: an ``nn.Module``, a ScriptModule or ``ExportedProgram.module()``.
        plan: a :class:`convert.models.run.CallPlan`.
    """
    import torch

    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *tensors: Any) -> tuple[Any, ...]:
            args, kwargs = plan.arrange(tensors)
            results = [item for _, item in flatten(self.module(*args, **kwargs))]
            return tuple(_copied_if_seen(results, list(tensors)))

        def train(self, mode: bool = True) -> Any:
            # The module is in evaluation mode for good; that of a program refuses to be told so.
            self.training = False
            return self

    Flat.__name__ = Flat.__qualname__ = "FlatModule"
    return Flat().train(False)


def _copied_if_seen(results: list[Any], seen: list[Any]) -> list[Any]:
    copied = []
    for item in results:
        fresh = item.clone() if any(item is other for other in seen) else item
        seen.append(item)
        copied.append(fresh)
    return copied

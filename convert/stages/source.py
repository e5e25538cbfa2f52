"""The live module for the stages that need it: exporters and converters, and the eager reference of the benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from convert.cases import Plan, draw
from convert.models.load import load
from convert.models.run import plan_call
from convert.models.scripted import for_export, for_trace
from convert.records import Dim, Golden, ModelRef


@dataclass(frozen=True)
class LiveSource:
    """The source as exporters want it.

    Attributes:
        module: takes the inputs in order, gives a flat tuple of the outputs in the order of ``Golden.outputs``.
        example: torch tensors for the inputs in order.
        dims: value of every dynamic dimension in ``example``.
        exported: the exported program, when the source is one.
    """

    module: Any
    example: tuple[Any, ...]
    dims: dict[str, int]
    exported: Any | None


def live_source(ref: ModelRef, golden: Golden, fixed: bool = False, trace: bool = False) -> LiveSource:
    """Load the source once more, with example inputs for an exporter.

    Args:
        ref: the model.
        golden: its interface.
        fixed: take the optimum of every dynamic dimension as it is, for converters whose files have fixed sizes.
        trace: the module goes to an exporter that traces, and not to one that builds on ``torch.export``.
    """
    import torch

    loaded = load(ref)
    plan = plan_call(loaded, tuple(spec.name for spec in golden.inputs))
    dims = {dim.name: dim.opt for dim in golden.dims} if fixed else export_dims(golden.dims)
    feeds = draw(Plan("export", "draw", dims, 11), golden.inputs, {})
    example = tuple(torch.from_numpy(feeds[spec.name]) for spec in golden.inputs)
    module = for_trace(loaded, plan, example) if trace else for_export(loaded, plan, example)
    return LiveSource(module, example, dims, loaded.exported)


def export_dims(dims: Sequence[Dim]) -> dict[str, int]:
    """Sizes to export at: not 1, which exporters take for a constant, and no two alike, which they take for one."""
    chosen: dict[str, int] = {}
    for dim in dims:
        size = max(dim.opt, min(2, dim.max))
        others = [value for value in range(max(dim.min, 2), dim.max + 1) if value not in chosen.values()]
        chosen[dim.name] = _nearest(size, others)
    return chosen


def _nearest(size: int, choices: Sequence[int]) -> int:
    return min(choices, key=lambda value: abs(value - size), default=size)

"""``convert.qat.save``: the trained module as an exported program for every target, with the ranges beside it."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from convert.errors import InputError
from convert.qat.fake import quantize_weight
from convert.qat.kinds import DROPOUTS
from convert.qat.module import QatModule, operator
from convert.qat.plan import Kind, Ref, Step, fused, renamed, substitute
from convert.qat.ranges import EXTRA, VERSION


class Point(nn.Module):
    """One step of the float network. Converters name what they make of it after the module, which names the range."""

    def __init__(self, step: Step, weight: Tensor | None = None, bias: Tensor | None = None) -> None:
        """Compute what ``step`` does, with these weights if it is a layer."""
        super().__init__()
        self._step = step
        self._given = step.refs()
        self._layer = weight is not None
        self.weight = None if weight is None else nn.Parameter(weight)
        self.bias = None if bias is None else nn.Parameter(bias)

    def forward(self, *values: Any) -> Any:
        """Compute the step from the results that it reads, in order."""
        known = dict(zip(self._given, values, strict=True))
        args, kwargs = substitute((self._step.args, self._step.kwargs), lambda ref: known[ref.name])
        weights = (self.weight, self.bias) if self._layer else ()
        return operator(self._step.target)(args[0], *weights, *args[1:], **kwargs)


def save(module: Any, path: str | os.PathLike[str]) -> None:
    """Write ``module`` as a program of ``torch.export`` that converts without calibration data.

    It holds the float network with every weight on its int8 grid (biases stay as they are; the int32 grid is finer than
    any range), and the learned ranges as an extra file. The file is written whole or not at all.

    Raises:
        InputError: ``module`` was not made by :func:`convert.qat.prepare`, or its ranges were never learned.
    """
    if not isinstance(module, QatModule):
        raise InputError(f"a {type(module).__name__} has no learned ranges; give what convert.qat.prepare returned")
    names = point_names(module)
    extra = {EXTRA: json.dumps(_described(module, names), indent=1)}
    program = _program(module, names)
    target = Path(path)
    with tempfile.TemporaryDirectory(dir=target.absolute().parent, prefix=f".{target.name}-") as folder:
        file = Path(folder) / "program.pt2"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, about its own format
            torch.export.save(program, file, extra_files=extra)
        os.replace(file, target)


def point_names(module: QatModule) -> dict[str, str]:
    """Step -> name of its point: a number that sorts in the order of the steps, and what it computes."""
    tensors = [step for step in module.qat_steps if step.kind is not Kind.NUMBER]
    width = max(3, len(str(len(tensors))))
    return {step.name: f"q{index:0{width}d}_{step.operator}" for index, step in enumerate(tensors)}


def _described(module: QatModule, names: dict[str, str]) -> dict[str, Any]:
    kept = {step.name: step for step in module.qat_steps if step.name in module.qat_scales.group}
    inside = fused(module.qat_steps, module.qat_outputs)
    points = {}
    for name, step in kept.items():
        low, high = module.qat_quantizer(name).range()
        points[names[name]] = {
            "low": float(low),
            "high": float(high),
            "operator": step.operator,
            "reads": [names[other] for other in step.refs() if other in kept],
            # A maximum is a choice among values, so that it moves none.
            "moved": step.kind is Kind.MOVE and step.operator not in ("max_pool2d", "upsample_nearest2d"),
            "inside": names[inside[name]] if name in inside else "",
        }
    return {
        "version": VERSION,
        "inputs": [names[name] for name in module.qat_inputs],
        "outputs": [names[name] for name in module.qat_outputs],
        "points": points,
    }


def _program(module: QatModule, names: dict[str, str]) -> Any:
    graph, holder = torch.fx.Graph(), nn.Module()
    nodes: dict[str, Any] = {}
    for step in _without_dropout(module):
        if step.kind is Kind.INPUT:
            nodes[step.name] = graph.placeholder(step.name)
        elif step.kind is Kind.NUMBER:
            args, kwargs = substitute((step.args, step.kwargs), lambda ref: nodes[ref.name])
            nodes[step.name] = graph.call_function(operator(step.target), tuple(args), kwargs)
        else:
            holder.add_module(names[step.name], _point(module, step))
            nodes[step.name] = graph.call_module(names[step.name], tuple(nodes[name] for name in step.refs()))
    flat = [nodes[name] for name in module.qat_outputs]
    graph.output(torch.utils._pytree.tree_unflatten(flat, module.qat_out_spec))
    floats = torch.fx.GraphModule(holder, graph).eval()
    symbols = dict.fromkeys(symbol for found in module.qat_dynamic for symbol in found.values())
    # A size of its own may be 1, which torch does not promise of one that it finds out itself.
    named = {symbol: torch.export.Dim(f"N{index or ''}", min=1) for index, symbol in enumerate(symbols)}
    try:
        return _export(floats, module, named)
    except Exception:  # of torch, where sizes depend on one another
        return _export(floats, module, dict.fromkeys(symbols, torch.export.Dim.AUTO))


def _export(floats: Any, module: QatModule, dims: dict[str, Any]) -> Any:
    axes = tuple({axis: dims[symbol] for axis, symbol in found.items()} for found in module.qat_dynamic)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return torch.export.export(floats, tuple(value.cpu() for value in module.qat_example), dynamic_shapes=axes)


def _without_dropout(module: QatModule) -> list[Step]:
    names: dict[str, str] = {}
    kept = []
    for step in (renamed(item, names) for item in module.qat_steps):
        if step.operator in DROPOUTS:
            first = step.args[0]
            assert isinstance(first, Ref)  # noqa: S101  (dropout of a tensor)
            names[step.name] = first.name
        else:
            kept.append(step)
    return kept


class _Constant(nn.Module):
    """A weight that is added or multiplied."""

    def __init__(self, value: Tensor) -> None:
        super().__init__()
        self.register_buffer("value", value)

    def forward(self) -> Any:
        return self.value


def _point(module: QatModule, step: Step) -> nn.Module:
    if step.kind is Kind.CONSTANT:
        owner, _, name = step.path.rpartition(".")
        return _Constant(getattr(module.get_submodule(owner), name).detach().cpu().clone())
    if step.kind is not Kind.LAYER:
        return Point(step)
    layer = module.qat_layer(step)
    weight = quantize_weight(layer.weight).detach().cpu().clone()
    return Point(step, weight, None if layer.bias is None else layer.bias.detach().cpu().clone())

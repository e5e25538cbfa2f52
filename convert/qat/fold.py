"""Batch norm becomes part of the layer before it, once and for all, before training starts.

The folded weights are what is trained from then on, and the running statistics are frozen in them: at inference the
runtime has no batch norm either (Jacob et al. 2018, section 3.2, equation 14, with the moving averages in place of the
batch's). Krishnamoorthi 2018, "Quantizing deep convolutional networks for efficient inference: A whitepaper", finds
that training ends best with frozen statistics; here all of the fine-tuning is done so. It suits a network that was
trained in float and is fine-tuned now, and not training from nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from convert.errors import InputError
from convert.qat.plan import Kind, Step, readers, renamed

Weights = tuple[Tensor, Tensor | None]


@dataclass
class Folded:
    """Steps without batch norm, what they give, and the weights of every layer by its path."""

    outputs: list[str]
    steps: list[Step] = field(default_factory=list)
    layers: dict[str, Weights] = field(default_factory=dict)


def fold(
    steps: Sequence[Step], outputs: Sequence[str], ranks: Mapping[str, int], tensors: Mapping[str, Tensor]
) -> Folded:
    """Fold every batch norm, and give each layer its weights.

    One that does not follow a layer of its own (as in DenseNet) becomes a depthwise convolution of one pixel, which
    computes the same.

    Raises:
        InputError: a batch norm uses the statistics of its batch, or cannot be written as a convolution.
    """
    folded, names = Folded(list(outputs)), dict[str, str]()
    read_by = readers(steps, outputs)
    uses = Counter(step.path for step in steps if step.kind is Kind.LAYER)
    paths = {step.name: step.path for step in steps if step.kind is Kind.CONSTANT}
    known: dict[str, Step] = {}
    for original in steps:
        step = renamed(original, names)
        if step.operator == "batch_norm":
            before = known[step.args[0].name]
            norm = _norm(step, paths, tensors)
            if before.kind is Kind.LAYER and read_by[before.name] == [step.name] and uses[before.path] == 1:
                folded.layers[before.path] = _into(norm, *folded.layers[before.path])
                names[step.name] = before.name
                continue
            step = _as_layer(step, norm, ranks, folded)
        elif step.kind is Kind.LAYER:
            weight, _, bias = step.path.partition("|")
            step = replace(step, path=weight.removesuffix(".weight"))
            folded.layers[step.path] = (tensors[weight].detach().clone(), _copy(tensors.get(bias)))
            uses[step.path] = uses[original.path]
        known[step.name] = step
        folded.steps.append(step)
    folded.outputs = [names.get(name, name) for name in outputs]
    used = {name for step in folded.steps for name in step.refs()}
    folded.steps = [step for step in folded.steps if step.kind is not Kind.CONSTANT or step.name in used]
    return folded


def _copy(value: Tensor | None) -> Tensor | None:
    return None if value is None else value.detach().clone()


@dataclass(frozen=True)
class _Norm:
    """A batch norm as ``x * factor + shift`` per channel, in float64, and where it lay."""

    path: str
    factor: Tensor
    shift: Tensor


def _norm(step: Step, paths: Mapping[str, str], tensors: Mapping[str, Tensor]) -> _Norm:
    weight, bias, mean, variance = (
        None if item is None else tensors[paths[item.name]].double() for item in step.args[1:5]
    )
    if step.args[5] or mean is None or variance is None:
        raise InputError(
            f"batch norm {step.name} uses the statistics of its batch, which no integer runtime has; use one with "
            "running statistics, in eval mode when it is exported"
        )
    factor = torch.rsqrt(variance + step.args[7])
    factor = factor if weight is None else factor * weight
    shift = -mean * factor if bias is None else bias - mean * factor
    return _Norm(paths[step.args[3].name].removesuffix(".running_mean"), factor, shift)


def _into(norm: _Norm, weight: Tensor, bias: Tensor | None) -> Weights:
    shape = (-1, *[1] * (weight.dim() - 1))
    scaled = weight.double() * norm.factor.reshape(shape)
    moved = norm.shift if bias is None else bias.double() * norm.factor + norm.shift
    return scaled.to(weight.dtype), moved.to(weight.dtype)


def _as_layer(step: Step, norm: _Norm, ranks: Mapping[str, int], folded: Folded) -> Step:
    if ranks[step.name] != 4:
        raise InputError(
            f"batch norm {step.name} follows no convolution or linear layer of its own and has {ranks[step.name]} "
            "axes; put it right after a layer"
        )
    channels = len(norm.factor)
    folded.layers[norm.path] = (norm.factor.float().reshape(channels, 1, 1, 1), norm.shift.float())
    args: tuple[Any, ...] = (step.args[0], [1, 1], [0, 0], [1, 1], channels)
    return Step(step.name, Kind.LAYER, "aten.conv2d.default", args, path=norm.path)

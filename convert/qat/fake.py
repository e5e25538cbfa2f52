"""Fake quantization: floats that take only the values which the int8 kernels can hold.

The arithmetic is the one of ai-edge-quantizer, which writes the file, in float32 and operation for operation:

- activations, per tensor, asymmetric: ``scale = (high - low) / 255`` with ``low <= 0 <= high``,
  ``zero = rint(-128 - low / scale)``, ``q = clamp(rint(x / scale) + zero, -128, 127)``;
- weights, per output channel, symmetric: ``scale = max|w| / 127``, ``q = clamp(rint(w / scale), -127, 127)``;
- biases: int32 with the scale ``input scale * weight scale``.

``rint`` rounds a half to the even neighbour, as numpy and XNNPACK do. (The reference kernel of QUANTIZE rounds a half
away from zero; the two differ only where a float lies exactly between two steps.)

Gradients go straight through the rounding; those of activations outside the range are zero (Jacob et al. 2018,
"Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", section 3).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from convert.errors import InputError

LEAST = 1e-9
"""A narrower range is as wide as this, so that no scale is zero."""
_LOWEST, _HIGHEST = -128, 127
_WEIGHT = 127
_INT32 = 2.0**31 - 1


class _Rounded(torch.autograd.Function):
    """Give ``rounded`` forwards; backwards the gradient goes to ``value`` where ``inside`` holds (None: everywhere)."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, rounded: Tensor, inside: Tensor | None) -> Tensor:
        ctx.save_for_backward(inside)
        return rounded

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (inside,) = ctx.saved_tensors
        return gradient if inside is None else gradient * inside, None, None


def activation_scale(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and zero point (float32, whole) of the range ``low`` <= 0 <= ``high`` (float32, no axes)."""
    scale = (high - low).clamp_min(LEAST) / 255
    return scale, torch.round(_LOWEST - low / scale)


def quantize_activation(x: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """``x`` on the grid of ``scale`` and ``zero``; the gradient is cut off where ``x`` lies outside."""
    with torch.no_grad():
        steps = torch.round(x / scale) + zero
        inside = (steps >= _LOWEST) & (steps <= _HIGHEST)
        rounded = (steps.clamp(_LOWEST, _HIGHEST) - zero) * scale
    return apply(_Rounded, x, rounded.to(x.dtype), inside)


def weight_scale(weight: Tensor) -> Tensor:
    """One scale per output channel, which is the first axis; float32 ``[channels, 1, ...]``."""
    largest = weight.detach().abs().amax(tuple(range(1, weight.dim())), keepdim=True)
    return largest.clamp_min(LEAST) / _WEIGHT


def quantize_weight(weight: Tensor) -> Tensor:
    """``weight`` on the symmetric grid of each output channel."""
    with torch.no_grad():
        scale = weight_scale(weight)
        rounded = torch.round(weight / scale).clamp(-_WEIGHT, _WEIGHT) * scale
    return apply(_Rounded, weight, rounded, None)


def quantize_bias(bias: Tensor, input_scale: Tensor, scale: Tensor) -> Tensor:
    """``bias`` ``[channels]`` in int32 steps of the scale of the products, ``input_scale * scale``."""
    with torch.no_grad():
        step = input_scale * scale.flatten()
        rounded = torch.round(bias / step).clamp(-_INT32, _INT32) * step
    return apply(_Rounded, bias, rounded, None)


def apply(function: Any, *values: Any) -> Tensor:
    """Run an autograd function (typed here, since torch's ``apply`` is not)."""
    result: Tensor = function.apply(*values)
    return result


class Quantizer(torch.nn.Module):
    """The range of one or several tensors that share a scale, learned as the moving average of what passes by.

    Every place (``site``) that gives one of these tensors has an average of its own; the range is their union, and
    holds zero. In train mode each call moves the average of its site; in eval mode the range stands still.
    """

    low: Tensor
    high: Tensor

    def __init__(self, sites: int, averaging: float) -> None:
        """Make a range of ``sites`` places that keeps ``averaging`` of its average at each step."""
        super().__init__()
        self.averaging = averaging
        self.register_buffer("low", torch.full((sites,), torch.inf))
        self.register_buffer("high", torch.full((sites,), -torch.inf))

    def forward(self, x: Tensor, site: int | None) -> Tensor:
        """``x`` on the grid; ``site`` is None for a tensor that has the range without shaping it."""
        if self.training and site is not None:
            self._observe(x.detach(), site)
        return quantize_activation(x, *self.scale())

    def _observe(self, x: Tensor, site: int) -> None:
        low, high = x.amin().float(), x.amax().float()
        if not bool(torch.isfinite(low) & torch.isfinite(high)):
            raise InputError("a value in training is not finite; lower the learning rate or look at the data")
        if torch.isfinite(self.low[site]):
            low = torch.lerp(low, self.low[site], self.averaging)
            high = torch.lerp(high, self.high[site], self.averaging)
        self.low[site] = low
        self.high[site] = high

    def scale(self) -> tuple[Tensor, Tensor]:
        """Scale and zero point.

        Raises:
            InputError: nothing has passed by yet.
        """
        return activation_scale(*self.range())

    def range(self) -> tuple[Tensor, Tensor]:
        """Lower and upper end, with zero in between (float32, no axes).

        Raises:
            InputError: nothing has passed by yet.
        """
        if not self.learned:
            raise InputError(
                "the ranges were never learned; run the prepared module in train mode on real data before it is "
                "evaluated or saved"
            )
        seen = torch.isfinite(self.low)
        low, high = self.low[seen].amin().clamp_max(0), self.high[seen].amax().clamp_min(0)
        # What was zero throughout needs a step all the same; zero is exact with any.
        return low, torch.where(low == high, torch.ones_like(high), high)

    @property
    def learned(self) -> bool:
        """Whether anything has passed by."""
        return bool(torch.isfinite(self.low).any())


class Fixed(torch.nn.Module):
    """A scale that TFLite prescribes: 1/256 with zero point -128 for sigmoid and softmax, 1/128 with 0 for tanh."""

    learned = True

    def __init__(self, scale: float, zero: int) -> None:
        """Make the grid."""
        super().__init__()
        self.step, self.zero = scale, zero

    def forward(self, x: Tensor, site: int | None) -> Tensor:
        """``x`` on the grid."""
        del site
        return quantize_activation(x, *self.scale())

    def scale(self) -> tuple[Tensor, Tensor]:
        """Scale and zero point."""
        return torch.tensor(self.step), torch.tensor(float(self.zero))

    def range(self) -> tuple[Tensor, Tensor]:
        """The smallest and largest value that the grid holds."""
        scale, zero = self.scale()
        return (_LOWEST - zero) * scale, (_HIGHEST - zero) * scale

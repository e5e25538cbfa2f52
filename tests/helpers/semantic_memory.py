"""In-place updates, views, layouts, complex numbers, and inputs and outputs of odd forms."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor as T
from torch import nn

from helpers.semantic_table import semantic


@semantic("x=float32[N,4]")
def inplace_on_input(x: T) -> T:
    x.mul_(2)
    return x + 1


@semantic("x=float32[N,4]", slow=True)
def inplace_on_input_returned(x: T) -> T:
    x.mul_(2)
    return x


@semantic("x=float32[N,4]")
def inplace_on_input_twice(x: T) -> tuple[T, T]:
    y = x
    x += 1
    return x, y


@semantic("x=float32[N,4]")
def inplace_through_view(x: T) -> T:
    y = x * 1
    y[:, 1:3] = 0
    y[:, 0].add_(5)
    y.view(-1)[::2] *= 3
    return y


@semantic("x=float32[N,4]")
def inplace_through_transpose(x: T) -> T:
    y = x.clone()
    y.t()[1] += y.t()[2]
    return y


@semantic("x=float32[N,4]", slow=True)
def inplace_by_mask(x: T) -> T:
    y = x.clone()
    y[y < 0] = -7.0
    return y


@semantic("x=float32[N,4]", slow=True)
def view_of_input(x: T) -> tuple[T, T]:
    return x.view(-1, 2), x[:, ::2]


@semantic("x=float32[N,4]")
def input_returned(x: T) -> tuple[T, T]:
    return x, x + 1


@semantic("x=float32[N,4]")
def only_input_returned(x: T) -> T:
    return x


@semantic("x=float32[N,4]")
def same_output_twice(x: T) -> tuple[T, T, T]:
    y = x * 2
    return y, y, y.view_as(y)


@semantic("x=float32[N,4]", "y=float32[N,3]")
def unused_input(x: T, y: T) -> T:
    return x * 2


@semantic("x=float32[N,4]", slow=True)
def constant_output(x: T) -> tuple[T, T]:
    return x * 2, torch.arange(3)


@semantic("x=float32[N,4]")
def only_constant_output(x: T) -> T:
    return torch.arange(3) * 2.0


@semantic("x=float32[]", "i=int64[]{0..5}")
def scalars(x: T, i: T) -> tuple[T, T]:
    return x * 2, i + 1


@semantic("x=float32[N,4]")
def scalar_output(x: T) -> T:
    return x.mean()


@semantic("x=float32[N,8]", slow=True)
def negative_slices(x: T) -> tuple[T, T, T]:
    return x[:, -3:], x[..., :-2], x.select(-1, -1)


@semantic("x=float32[N,3,4,5]", slow=True)
def channels_last(x: T) -> T:
    y = x.contiguous(memory_format=torch.channels_last)
    return nn.functional.avg_pool2d(y, 2).to(memory_format=torch.channels_last)


@semantic("x=float32[N,4,6]", slow=True)
def not_contiguous(x: T) -> tuple[T, T]:
    return x.transpose(1, 2), x.transpose(1, 2).reshape(x.shape[0], -1)


@semantic("x=float32[N,4,6]", slow=True)
def as_strided(x: T) -> T:
    return x.unfold(2, 3, 2)


@semantic("x=float32[2,12]", slow=True)
def strided_of_fixed(x: T) -> T:
    return x.as_strided((2, 3, 4), (12, 2, 1))


@semantic("x=float32[2,512]")
def stft_magnitude(x: T) -> T:
    return torch.stft(x, 64, 16, window=torch.hann_window(64), return_complex=True).abs()


@semantic("x=float32[2,512]", expect="onnxruntime does not take the graph", slow=True)
def stft_and_back(x: T) -> T:
    window = torch.hann_window(64)
    return torch.istft(torch.stft(x, 64, 16, window=window, return_complex=True), 64, 16, window=window, length=512)


@semantic("x=float32[N,64]")
def fft_magnitude(x: T) -> T:
    return torch.fft.rfft(x).abs()


@semantic("x=float32[N,64]", expect="output output_1 in case edge-constant")
def fft_parts(x: T) -> tuple[T, T]:
    y = torch.fft.rfft(x)
    return y.real, y.imag


@semantic("x=float32[N,64]")
def complex_arithmetic(x: T) -> T:
    return torch.view_as_real(torch.view_as_complex(x.view(-1, 32, 2)) * (1 + 2j))


@semantic("x=float32[N,64]", expect="output output is complex64, and no runtime has complex outputs")
def complex_output(x: T) -> T:
    return torch.fft.rfft(x)


@semantic("x=float32[N,4]")
def dict_output(x: T) -> dict[str, T]:
    return {"b": x * 2, "a": x + 1}


_Pair = namedtuple("_Pair", "first second")


@semantic("x=float32[N,4]", slow=True)
def named_tuple_output(x: T) -> Any:
    return _Pair(x * 2, x + 1)


@dataclass
class _Result:
    first: T
    second: T | None = None


@semantic("x=float32[N,4]", slow=True)
def dataclass_output(x: T) -> _Result:
    return _Result(x * 2)


@semantic("x=float32[N,4]", slow=True)
def nested_output(x: T) -> Any:
    return [x * 2, {"a": (x + 1, None)}]


@semantic("x=float32[N,4]", expect="is a int")
def number_in_output(x: T) -> Any:
    return x, 3


@semantic("x=float32[N,4]", expect="is a str", slow=True)
def text_in_output(x: T) -> Any:
    return {"x": x * 2, "name": "a"}


@semantic("x=float32[N,4]", "y=float32[N,4]")
class StarArguments(nn.Module):
    def forward(self, *xs: T, **more: Any) -> T:
        return sum(x * at for at, x in enumerate(xs, 1)) if not more else more["y"]


@semantic("x=float32[N,4]", slow=True)
class OptionalInput(nn.Module):
    def forward(self, x: T, mask: T | None = None, scale: float = 2.0) -> T:
        return x * scale if mask is None else x * mask


@semantic("x=float32[N,4]", "mask=float32[N,4]")
class OptionalInputGiven(nn.Module):
    def forward(self, x: T, bias: T | None = None, mask: T | None = None) -> T:
        return x if mask is None else x * mask - 1


@semantic("x=float32[N,3]")
class UpdatesBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(3))

    def forward(self, x: T) -> T:
        self.last.copy_(x[0])
        return x * 2


@semantic("x=float32[N,3]", expect="state that it updates in forward (buffer total)")
class DependsOnBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: T) -> T:
        self.total += x.sum(0)
        return x + self.total


@semantic("x=float32[N,3]", slow=True)
class InplaceOnView(nn.Module):
    """Writes a view of a buffer that is filled anew on each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(4, 3))

    def forward(self, x: T) -> T:
        self.table[1:3] = x[:1] * 2
        self.table[0].fill_(1.0)
        return self.table * 1


class _Noise(nn.Module):
    def forward(self, x: T) -> T:
        return x + torch.randn_like(x)


@semantic("x=float32[N,3]", expect="it draws random numbers with aten.randn_like")
class NoiseInSubmodule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), _Noise())

    def forward(self, x: T) -> T:
        return self.inner(x)

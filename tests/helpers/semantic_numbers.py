"""Arithmetic whose meaning depends on signs, ties, ranges and types."""

from __future__ import annotations

import torch
from torch import Tensor as T
from torch.nn import functional

from helpers.semantic_table import semantic

SIGNED = "a=int64[N,6]{-20..20}"
DIVISOR = "b=int64[N,6]{-7..-1}"


@semantic(SIGNED, DIVISOR)
def floor_division(a: T, b: T) -> T:
    return a // b


@semantic(SIGNED, DIVISOR, slow=True)
def truncated_division(a: T, b: T) -> T:
    return torch.div(a, b, rounding_mode="trunc")


@semantic(SIGNED, DIVISOR)
def remainder(a: T, b: T) -> T:
    return a % b


@semantic(SIGNED, DIVISOR, slow=True)
def fmod(a: T, b: T) -> T:
    return torch.fmod(a, b)


@semantic("a=int32[N,6]{-20..20}", slow=True)
def division_by_constant(a: T) -> tuple[T, T, T]:
    return a // 3, a % -4, torch.div(a, -3, rounding_mode="trunc")


@semantic("a=int64[N,6]{-20..20}", slow=True)
def true_division(a: T) -> T:
    return a / 4


@semantic("x=float32[N,6]", feeds=[{"x": [[-7.5, 7.5, -0.5, 3.0, -3.0, 1e6]] * 4}])
def float_floor_division(x: T) -> tuple[T, T, T]:
    return x // 2.5, x % 2.5, torch.fmod(x, -2.5)


@semantic("x=float32[N,6]", feeds=[{"x": [[0.5, 1.5, 2.5, -0.5, -1.5, -2.5]] * 4}])
def rounding(x: T) -> tuple[T, T, T, T, T]:
    return x.round(), x.floor(), x.ceil(), x.trunc(), x.frac()


@semantic("x=float32[N,6]", feeds=[{"x": [[0.125, 0.135, 2.675, -0.125, -1.5, 0.005]] * 4}], slow=True)
def rounding_decimals(x: T) -> T:
    return torch.round(x, decimals=1)


@semantic("x=float32[N,6]", feeds=[{"x": [[0.9, -0.9, 1.999, -1.999, 300.5, -300.5]] * 4}])
def float_to_int(x: T) -> tuple[T, T]:
    return x.long(), x.to(torch.int32)


@semantic("x=float32[N,6]", feeds=[{"x": [[0.9, -0.9, 127.5, -128.5, 300.0, -300.0]] * 4}])
def float_to_uint8(x: T) -> T:
    return x.to(torch.uint8)


@semantic("a=int32[N,6]{-2000000000..2000000000}")
def int32_wraps(a: T) -> T:
    return a * 3


@semantic("a=int64[N,6]{0..1000}", slow=True)
def beyond_int32(a: T) -> T:
    return a * 2**33


@semantic("a=int64[N,6]{0..2000000}")
def hash_like(a: T) -> T:
    return (a * 2654435761 + 12345) % 1009


@semantic("a=int64[N,6]{0..100000}", slow=True)
def square_within(a: T) -> T:
    return (a * a) % 1009


@semantic("a=int64[N,6]{0..1000}", slow=True)
def shifts(a: T) -> tuple[T, T]:
    return a << 3, a >> 2


@semantic("a=int64[N,6]{-1000..1000}")
def shifts_of_negatives(a: T) -> tuple[T, T]:
    return a << 3, a >> 2


@semantic("a=int64[N,6]{-100..100}", "b=int64[N,6]{-100..100}")
def bits(a: T, b: T) -> tuple[T, T, T, T]:
    return a & b, a | b, a ^ b, ~a


@semantic("x=float32[N,6]", slow=True)
def argmax_ties(x: T) -> tuple[T, T]:
    return x.round().argmax(-1), x.round().argmin(-1)


@semantic("x=float32[N,16]", expect="aten.sort")
def stable_sort_ties(x: T) -> tuple[T, T]:
    values, places = torch.sort(x.round(), dim=-1, stable=True)
    return values, places


@semantic("x=float32[N,16]", expect="aten.sort", slow=True)
def stable_sort_down(x: T) -> T:
    return torch.sort(x.round(), dim=-1, stable=True, descending=True).indices


@semantic("x=float32[N,16]", expect="elements differ")
def topk_ties(x: T) -> T:
    return x.round().topk(5, dim=-1).indices


@semantic("x=float32[N,T]", dims=("T=2..8..16",))
def cumsum(x: T) -> tuple[T, T]:
    return x.cumsum(1), x.flip(1).cumsum(0)


@semantic("a=int64[N,8]{-50..50}", slow=True)
def cumsum_of_integers(a: T) -> T:
    return a.cumsum(-1)


@semantic("x=float32[N,8]", "i=int64[N,5]{0..7}", slow=True)
def gather(x: T, i: T) -> T:
    return x.gather(1, i)


@semantic("x=float32[N,8]", "i=int64[N,5]{-8..7}")
def negative_index(x: T, i: T) -> T:
    return x[torch.arange(x.shape[0])[:, None], i]


@semantic("x=float32[N,5]", "i=int64[N,5]{0..3}")
def scatter_add_duplicates(x: T, i: T) -> T:
    return torch.zeros(x.shape[0], 4).scatter_add(1, i, x)


@semantic("x=float32[6]", "i=int64[6]{0..3}")
def index_put_accumulate(x: T, i: T) -> T:
    return torch.zeros(4).index_put((i,), x, accumulate=True)


@semantic("x=float32[N,5]", "i=int64[N,5]{0..3}", slow=True)
def scatter_amax(x: T, i: T) -> T:
    return torch.zeros(x.shape[0], 4).scatter_reduce(1, i, x, "amax", include_self=False)


@semantic("x=float32[N,5]")
def float64_constant(x: T) -> T:
    return (x * torch.tensor([1.0 / 3.0], dtype=torch.float64)).sum(-1)


@semantic("x=float32[N,5]", slow=True)
def float64_inside(x: T) -> T:
    return (x.double() + 1e8).sub(1e8).float()


@semantic("x=float32[N,5]", slow=True)
def where_scalar(x: T) -> tuple[T, T]:
    return torch.where(x > 0, x, 0.0), torch.where(x > 0, 1, -1)


@semantic("x=float32[N,5]", slow=True)
def float32_limits(x: T) -> tuple[T, T]:
    return x * 1e37, torch.exp(x * 50)


@semantic("x=float32[N,5]", slow=True)
def log_of_anything(x: T) -> T:
    return torch.log(x)


@semantic("x=float32[N,5]", "m=bool[N,5]")
def masked_softmax(x: T, m: T) -> T:
    return functional.softmax(x.masked_fill(~m, float("-inf")), dim=-1)


@semantic("x=float32[N,5]", slow=True)
def softmax_of_hidden_row(x: T) -> T:
    return functional.softmax(x.masked_fill(x < 0, float("-inf")), dim=-1)


@semantic("x=float32[N,5]", slow=True)
def nan_to_num(x: T) -> T:
    return torch.nan_to_num(torch.log(x), nan=-1.0, neginf=-2.0)


@semantic("x=float32[N,5]", expect="NaN stands in other places")
def max_with_nan(x: T) -> tuple[T, T]:
    y = torch.sqrt(x)
    return y.amax(-1), y.relu()


@semantic("x=float32[N,5]", slow=True)
def compare_with_nan(x: T) -> T:
    y = torch.sqrt(x)
    return (y == y) & (y < 1)


@semantic("x=float32[N,5]", expect="signbit", slow=True)
def sign_and_copysign(x: T) -> tuple[T, T]:
    return x.sign(), torch.copysign(torch.ones(5), x)


@semantic("x=float32[N,5]", slow=True)
def clamp_and_pow(x: T) -> tuple[T, T]:
    return x.clamp(min=0.5), x.abs().pow(1.5) + x.pow(3)


@semantic("x=float32[N,5]", expect="onnxruntime does not take the graph", slow=True)
def bool_arithmetic(x: T) -> T:
    return ((x > 0) + (x > 1)).to(torch.int64) + (x > 0).sum(-1, keepdim=True)


@semantic("a=uint8[N,6]", slow=True)
def uint8_arithmetic(a: T) -> tuple[T, T]:
    return a + 100, a.float() / 255


@semantic("a=int8[N,6]{-128..127}", slow=True)
def int8_arithmetic(a: T) -> tuple[T, T]:
    return a + 100, -a


@semantic("a=int16[N,6]{-30000..30000}", slow=True)
def int16_arithmetic(a: T) -> tuple[T, T]:
    return a * 2, a.float() * 0.5


@semantic("x=float16[N,6]", slow=True)
def float16_input(x: T) -> T:
    return x.float() * 3 + 1


@semantic("x=float64[N,6]")
def float64_input(x: T) -> T:
    return x * 3 + 1e-9


@semantic("x=float32[N,6]", slow=True)
def mean_of_bool(x: T) -> T:
    return (x > 0).float().mean(-1)


@semantic("x=float32[N,6]", slow=True)
def variance(x: T) -> tuple[T, T]:
    return x.var(-1), x.std(-1, correction=0)


@semantic("x=float32[N,1]", expect="is NaN everywhere in every case")
def variance_of_one(x: T) -> T:
    return x.var(-1)

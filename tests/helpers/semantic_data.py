"""Control flow and shapes that depend on data, on sizes or on the mode of the module."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor as T
from torch import nn

from helpers.semantic_table import semantic

DEPENDS = "control flow depends on the values of its inputs"


@semantic("x=float32[2,4]", expect=DEPENDS)
def branch_on_sum(x: T) -> T:
    return x * 2 if x.sum() > 1e4 else x + 1


@semantic("x=float32[2,4]", expect=DEPENDS, slow=True)
def branch_on_item(x: T) -> T:
    return x * 2 if x.max().item() > 1e4 else x + 1


@semantic("x=float32[2,4]", expect=DEPENDS)
def loop_of_item(x: T) -> T:
    for _ in range(int(x[0, 0].abs().clamp(max=5).item())):
        x = x * 1.5
    return x


@semantic("x=float32[2,4]", "n=int64[]{1..4}", expect=DEPENDS, slow=True)
def loop_of_input(x: T, n: T) -> T:
    for _ in range(int(n)):
        x = x * 1.5
    return x


@semantic("x=float32[2,4]", expect=DEPENDS, slow=True)
def while_loop(x: T) -> T:
    while x.abs().max() > 1000:
        x = x / 2
    return x


@semantic("x=float32[2,4]", expect=DEPENDS)
def scalar_from_numpy(x: T) -> T:
    return x * float(np.abs(x.numpy()).max())


@semantic("x=float32[2,4]")
def scalar_of_item(x: T) -> T:
    return x * x.max().item()


@semantic("x=float32[2,4]", expect=DEPENDS, slow=True)
def scalar_of_tolist(x: T) -> T:
    return x * max(x.flatten().tolist())


@semantic("x=float32[2,4]", expect=DEPENDS)
def branch_behind_what_export_lacks(x: T) -> T:
    if float(np.asarray(x.detach())[0, 0]) > 1e4:
        return x * 2
    return x + 1


@semantic("x=float32[2,4]", expect=DEPENDS)
def branch_in_try(x: T) -> T:
    try:
        return x * 2 if bool((x > 1e4).any()) else x + 1
    except RuntimeError:
        return x


@semantic("x=float32[2,4]", expect=DEPENDS)
def branch_on_equal(x: T) -> T:
    return x + 1 if torch.equal(x, x.abs()) else x * 2


@semantic("x=float32[2,4]", expect=DEPENDS, slow=True)
def branch_on_allclose(x: T) -> T:
    return x + 1 if torch.allclose(x, x.abs()) else x * 2


@semantic("x=float32[2,4]", expect=DEPENDS)
def branch_on_nonzero(x: T) -> T:
    return x + 1 if len(torch.nonzero(x > 1e4)) == 0 else x * 2


@semantic("x=float32[N,T]", dims=("T=2..8..16",), expect="the exporter fixed a dynamic size: x axis 0 (N)")
def ints_from_shapes(x: T) -> T:
    half = x.shape[1] // 2
    return x[:, :half].sum(1) / float(x.shape[1]) + int(x.shape[0])


@semantic("x=float32[N,T]", dims=("T=2..8..16",), expect="the exporter fixed a dynamic size: x axis 1 (T)", slow=True)
def loop_over_shape(x: T) -> T:
    total = torch.zeros(x.shape[0])
    for at in range(x.shape[1]):
        total = total * 0.5 + x[:, at]
    return total


@semantic("x=float32[N,T]", dims=("T=2..8..16",), expect="in case max-draw0 (N=16, T=16)")
def branch_on_shape(x: T) -> T:
    return x.sum(1) * 2 if x.shape[1] > 12 else x.sum(1)


@semantic("x=float32[N,T]", dims=("T=2..8..16",))
def shape_as_tensor(x: T) -> T:
    return x.sum(1) / torch.tensor(x.shape[1], dtype=torch.float32)


@semantic("x=float32[N,T]", dims=("T=2..8..16",), slow=True)
def size_in_arange(x: T) -> T:
    return x * torch.arange(x.size(-1))


@semantic("x=float32[A,B]", dims=("A=2..8..16", "B=2..8..16"), slow=True)
def equal_dims(x: T) -> T:
    return x.t() @ x + x.shape[0]


@semantic("x=float32[1,2,H,W]", dims=("H=4..8..12", "W=4..8..12"))
def height_is_width(x: T) -> T:
    return x.flatten(2).transpose(1, 2).reshape(1, x.shape[3], x.shape[2], 2)


@semantic("x=float32[N,T]", "y=float32[N,S]", dims=("T=2..8..16", "S=2..8..16"), slow=True)
def unequal_lengths(x: T, y: T) -> T:
    return x[:, :, None] + y[:, None, :]


@semantic("x=float32[A]", "y=float32[B]", dims=("A=1..4..16", "B=1..4..16"))
def adds_two_dims(x: T, y: T) -> T:
    return x + y


@semantic("x=float32[2,8]", slow=True)
def nonzero(x: T) -> T:
    return torch.nonzero(x > 0)


@semantic("x=float32[2,8]")
def boolean_mask(x: T) -> T:
    return x[x > 0] * 2


@semantic("a=int64[12]{0..5}")
def unique(a: T) -> T:
    return torch.unique(a)


@semantic("x=float32[12]")
def mask_then_sum(x: T) -> T:
    return x[x > 0].sum()


@semantic("n=int64[]{1..6}", "x=float32[8]")
def slice_to_input(n: T, x: T) -> T:
    return x[: n.item()]


@semantic("x=float32[2,4]", expect="output in case branch0")
def branch_hidden_from_export(x: T) -> T:
    """Does not take its branch while it is exported, as some libraries do."""
    if not torch.compiler.is_compiling() and not torch.jit.is_tracing() and x.sum() > 1e4:
        return x * 2
    return x + 1


@semantic("x=float32[2,4]", expect="output in case branch0")
def branch_lost_in_try(x: T) -> T:
    """Where export complains of the branch, the module goes on without."""
    try:
        if x.sum() > 1e4:
            return x * 2
    except Exception:
        return x + 1
    return x + 1


@semantic("x=float32[2,4]")
class UsesTraining(nn.Module):
    def forward(self, x: T) -> T:
        return x * 100 if self.training else x + 1


@semantic("x=float32[2,4]")
class BranchOnBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kind", torch.tensor(3))

    def forward(self, x: T) -> T:
        return x * 2 if self.kind.item() == 3 else x

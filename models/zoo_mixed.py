"""Reference models on vectors and sets: a perceptron, one with two inputs and nested outputs, one with a bool mask."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from convert.models.zoo_common import finish


class Mlp(nn.Module):
    """A perceptron with batch norms and several activations. ``x`` float32 ``[N, 24]`` to ``[N, 8]``."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(24, 64),
            nn.BatchNorm1d(64),
            nn.ReLU(),
            nn.Linear(64, 64),
            nn.BatchNorm1d(64),
            nn.Tanh(),
            nn.Linear(64, 32),
            nn.Dropout(0.2),
            nn.ELU(),
        )
        self.head = nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        """Give logits ``[N, 8]``."""
        y: Tensor = self.head(self.body(x))
        return y


class MultiIo(nn.Module):
    """Two inputs of different widths; outputs in a dict that holds a tensor, None and a tuple with a list in it."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(12, 32)
        self.right = nn.Linear(20, 32)
        self.mix = nn.Linear(96, 16)
        self.score = nn.Linear(16, 5)
        self.near = nn.Linear(32, 3)
        self.far = nn.Linear(32, 4)

    def forward(self, left: Tensor, right: Tensor) -> dict[str, object]:
        """Give ``score`` ``[N, 5]``, ``state`` None and ``parts`` (``[N, 3]``, [``[N, 4]``, ``[N, 32]``])."""
        a = torch.tanh(self.left(left))
        b = nn.functional.softplus(self.right(right))
        mixed = self.mix(torch.cat([a, b - b.mean(dim=1, keepdim=True), a * b], dim=1))
        return {
            "score": self.score(torch.relu(mixed)),
            "state": None,
            "parts": (self.near(a), [self.far(b), torch.maximum(a, b - 0.5)]),
        }


class MaskedPool(nn.Module):
    """Attention pooling with a bool mask. ``items`` ``[N, S, 16]`` and ``keep`` bool ``[N, S]`` to ``[N, 6]``."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32))
        self.weight = nn.Linear(32, 4)
        self.head = nn.Linear(128, 6)

    def forward(self, items: Tensor, keep: Tensor) -> Tensor:
        """Pool the items with ``keep`` true; all of them count the same way where none is kept."""
        features = self.embed(items)
        scores = self.weight(features).masked_fill(~keep.unsqueeze(-1), -1e4)
        pooled = torch.einsum("nsh,nsc->nhc", scores.softmax(dim=1), features)
        y: Tensor = self.head(pooled.flatten(1))
        return y


def mlp() -> nn.Module:
    """Make the perceptron."""
    return finish(Mlp, lambda: (torch.randn(32, 24),), heads=("head",))


def multi_io() -> nn.Module:
    """Make the network with two inputs and nested outputs."""
    return finish(MultiIo, lambda: (torch.randn(32, 12), torch.randn(32, 20)), heads=("score", "near", "far"))


def masked_pool() -> nn.Module:
    """Make the network with a bool mask."""
    return finish(MaskedPool, lambda: (torch.randn(32, 9, 16), torch.rand(32, 9) < 0.5), heads=("head",))

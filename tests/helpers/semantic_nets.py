"""Modules whose meaning exporters lose: each is converted as ``semantic_nets.py:NAME``."""

from __future__ import annotations

import torch
from torch import nn


class _Branch(nn.Module):
    """Takes the second branch for inputs that no usual draw reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 1e4:
            return self.b(x) * 2
        return self.a(x)


class _Overflow(nn.Module):
    """A norm whose sum of squares is beyond float16, while what goes in and comes out is small."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x) * 600.0
        return self.last(hidden / torch.sqrt((hidden * hidden).sum(-1, keepdim=True) + 1e-6))


class _Even(nn.Module):
    """Takes even lengths only."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(1, (-1, 2)).sum(2)


class _Wide(nn.Module):
    """More weights than a protobuf can hold, of which every run reads only a few."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9_000_000, 64, _weight=torch.empty(9_000_000, 64).uniform_(-1, 1))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table(ids).sum(1)


def branch() -> nn.Module:
    torch.manual_seed(0)
    return _Branch().eval()


def overflow() -> nn.Module:
    torch.manual_seed(0)
    return _Overflow().eval()


def even() -> nn.Module:
    return _Even()


def wide() -> nn.Module:
    torch.manual_seed(0)
    return _Wide().eval()

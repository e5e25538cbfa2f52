"""Modules with something to be found out; each is inspected as ``look_nets.py:NAME``."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


@torch.library.custom_op("look_nets::quarter", mutates_args=())  # type: ignore[untyped-decorator]
def quarter(x: torch.Tensor) -> torch.Tensor:
    return torch.floor(x * 4) / 4


@quarter.register_fake  # type: ignore[untyped-decorator]
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class _Conv(nn.Module):
    """16 of 3x3 over 3 channels: 2*16*27 operations for each of the output's 36 places."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 16, 3), nn.Linear(16, 5)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.calls += 1
        hidden = functional.relu(self.conv(x))
        return {"map": hidden, "score": self.last(hidden.mean((2, 3)))}


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 5, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.rnn(x)[0]
        return hidden.cumsum(1)


class _Noisy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x, 0.3, training=True) + torch.randn(x.shape)


class _Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.sum() > 0:
            return y
        return -y


class _Custom(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return quarter(x) + 1


class _Closed(nn.Module):
    """Says nothing of what it takes."""

    def forward(self, *things: torch.Tensor) -> torch.Tensor:
        raise ValueError(f"not with {len(things)} things")


def conv() -> nn.Module:
    torch.manual_seed(0)
    return _Conv().eval()


def recurrent() -> nn.Module:
    torch.manual_seed(0)
    return _Recurrent().eval()


def noisy() -> nn.Module:
    return _Noisy().eval()


def branch() -> nn.Module:
    return _Branch().eval()


def custom() -> nn.Module:
    return _Custom().eval()


def closed() -> nn.Module:
    return _Closed().eval()

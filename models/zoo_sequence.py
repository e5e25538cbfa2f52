"""Reference models over time: recurrent networks in their usual forms and 1-D convolutional ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from convert.models.zoo_common import finish

_FEATURES = 12
_HIDDEN = 24


class Lstm(nn.Module):
    """Two layers; the last step by a negative index goes to the head. ``x`` ``[N, T, 12]`` to ``[N, 6]``."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(_FEATURES, _HIDDEN, num_layers=2, batch_first=True)
        self.head = nn.Linear(_HIDDEN, 6)

    def forward(self, x: Tensor) -> Tensor:
        """Give logits ``[N, 6]``."""
        y, _ = self.rnn(x)
        logits: Tensor = self.head(y[:, -1])
        return logits


class BiLstm(nn.Module):
    """Forwards and backwards over the whole sequence, one result per step. ``[N, T, 12]`` to ``[N, T, 5]``."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(_FEATURES, _HIDDEN, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * _HIDDEN, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Give logits of every step, ``[N, T, 5]``."""
        y, _ = self.rnn(x)
        logits: Tensor = self.head(y)
        return logits


class Gru(nn.Module):
    """Two layers; the whole sequence and the last hidden state are both outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(_FEATURES, _HIDDEN, num_layers=2, batch_first=True)
        self.head = nn.Linear(_HIDDEN, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """``x`` ``[N, T, 12]`` to logits ``[N, 6]`` and the sequence ``[N, T, 24]``."""
        y, hidden = self.rnn(x)
        return self.head(hidden[1]), y


class Audio(nn.Module):
    """Strided and grouped 1-D convolutions over a spectrogram. ``mel`` ``[N, 16, T]`` to ``[N, 7]``."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(16, 32, 5, stride=2, padding=2),
            nn.BatchNorm1d(32),
            nn.GELU(),
            nn.Conv1d(32, 32, 3, padding=1, groups=4),
            nn.BatchNorm1d(32),
            nn.GELU(),
            nn.Conv1d(32, 48, 3, padding=2, dilation=2),
            nn.GroupNorm(6, 48),
            nn.GELU(),
            nn.Conv1d(48, 48, 1),
        )
        self.head = nn.Linear(96, 7)

    def forward(self, mel: Tensor) -> Tensor:
        """Give logits ``[N, 7]`` from the mean and the largest value over time."""
        y = self.body(mel)
        logits: Tensor = self.head(torch.cat([y.mean(dim=-1), y.amax(dim=-1)], dim=1))
        return logits


class Causal(nn.Module):
    """Dilated 1-D convolutions that see the past only, one result per step. ``[N, 8, T]`` to ``[N, 5, T]``."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(8 if i == 0 else 24, 48, 2, dilation=2**i) for i in range(3))
        self.skips = nn.ModuleList(nn.Conv1d(24, 24, 1) for _ in range(3))
        self.head = nn.Conv1d(24, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Give logits of every step, ``[N, 5, T]``."""
        total: Tensor | None = None
        for i, (layer, skip) in enumerate(zip(self.layers, self.skips, strict=True)):
            value, gate = layer(nn.functional.pad(x, (2**i, 0))).chunk(2, dim=1)
            x = torch.tanh(value) * torch.sigmoid(gate)
            total = skip(x) if total is None else total + skip(x)
        y: Tensor = self.head(torch.relu(total))
        return y


def _steps() -> tuple[Tensor, ...]:
    return (torch.randn(32, 10, _FEATURES),)


def _strong(build: type[nn.Module]) -> nn.Module:
    """Make the recurrent weights larger than torch does, so that gates leave their linear middle."""
    net = build()
    for name, weight in net.named_parameters():
        if name.startswith("rnn.weight"):
            weight.mul_(2.0)
    return net


def lstm() -> nn.Module:
    """Make the LSTM."""
    return finish(lambda: _strong(Lstm), _steps, heads=("head",))


def bilstm() -> nn.Module:
    """Make the bidirectional LSTM."""
    return finish(lambda: _strong(BiLstm), _steps, heads=("head",))


def gru() -> nn.Module:
    """Make the GRU."""
    return finish(lambda: _strong(Gru), _steps, heads=("head",))


def audio() -> nn.Module:
    """Make the network for sound."""
    return finish(Audio, lambda: (torch.randn(16, 16, 40),), heads=("head",))


def causal() -> nn.Module:
    """Make the causal network for sound."""
    return finish(Causal, lambda: (torch.randn(16, 8, 20),), heads=("head",))

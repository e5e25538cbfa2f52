"""Models with which nothing can be proven; copied beside the test's other files as ``nets.py``."""

from __future__ import annotations

from typing import Any

import torch


def make() -> Any:
    return torch.nn.Linear(8, 4)


class Dropping(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.nn.functional.dropout(x, 0.5, training=True)


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x * self.calls


class Empty(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return None


def broken() -> Any:
    raise ValueError("no weights here")


def number() -> int:
    return 3

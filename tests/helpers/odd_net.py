"""A model and its samples; copied into a folder with an odd name, beside a module that it imports."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch

SIZE = import_module("beside_it").SIZE


def make() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(SIZE, 4), torch.nn.Tanh())


def samples() -> dict[str, Any]:
    return {"x": np.linspace(-1, 1, 8 * SIZE, dtype=np.float32).reshape(8, SIZE)}

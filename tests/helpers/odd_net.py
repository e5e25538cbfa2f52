"""A model and its samples; copied into a folder with an odd name, beside a module that it imports."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from beside_it import SIZE


def make() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(SIZE, 4), torch.nn.Tanh())


def samples() -> dict[str, Any]:
    return {"x": np.linspace(-1, 1, 8 * SIZE, dtype=np.float32).reshape(8, SIZE)}

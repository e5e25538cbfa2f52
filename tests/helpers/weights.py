"""Finding weights in the bytes of a file."""

from __future__ import annotations

from typing import Any

import numpy as np


def largest_weights(data: bytes, dtype: str, count: int) -> tuple[int, np.ndarray[Any, Any]]:
    """Where ``count`` neighbouring numbers lie that look like weights, and the numbers."""
    size = np.dtype(dtype).itemsize
    for start in range(len(data) // 3 // 8 * 8, len(data) - count * size):
        values = np.frombuffer(data, dtype, count, start)
        with np.errstate(all="ignore"):
            if np.isfinite(values).all() and (np.abs(values) > 1e-3).all() and (np.abs(values) < 2).all():
                return start, values
    raise AssertionError("no weights were found")

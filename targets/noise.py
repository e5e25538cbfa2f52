"""How much noise an artifact adds to the outputs of another one: one number for a whole set of batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def noise(got: Sequence[Mapping[str, Array]], wanted: Sequence[Mapping[str, Array]]) -> float:
    """Root mean square of the error as a share of the output's own, of the output that has most.

    Args:
        got: the outputs of each batch.
        wanted: the same without the noise.

    Returns:
        For an output of integers the share of elements that differ; infinity for values that are not finite.
    """
    names = wanted[0].keys() if wanted else ()
    return max((_share([b[name] for b in got], [b[name] for b in wanted]) for name in names), default=0.0)


def _share(got: Sequence[Array], wanted: Sequence[Array]) -> float:
    pairs = [(a.astype(np.float64), b.astype(np.float64)) for a, b in zip(got, wanted, strict=True)]
    if wanted[0].dtype.kind != "f":
        return sum(float((a != b).sum()) for a, b in pairs) / max(sum(b.size for _, b in pairs), 1)
    error = sum(float(((a - b) ** 2).sum()) for a, b in pairs)
    signal = sum(float((b**2).sum()) for _, b in pairs)
    if not np.isfinite(error):
        return float("inf")
    return float(np.sqrt(error / signal)) if signal > 0 else (float("inf") if error else 0.0)

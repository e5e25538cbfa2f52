"""NaN and infinity among the user's data and the source's outputs: what must not pass for a proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from convert.errors import InputError

Array = np.ndarray[Any, Any]


def finite_values(arrays: Sequence[Array]) -> Array:
    """All finite values of ``arrays``, flat and as float64; draws that follow an infinite mean would all be NaN."""
    flat = [array.astype(np.float64).ravel() for array in arrays if array.size]
    joined = np.concatenate(flat) if flat else np.empty(0)
    return joined[np.isfinite(joined)]


def require_numbers(outputs: Sequence[Mapping[str, Array]]) -> None:
    """Refuse a source that has an output of nothing but NaN in every case: any artifact with NaN would pass.

    Raises:
        InputError: names the first such output.
    """
    for name, first in outputs[0].items():
        values = [found[name] for found in outputs if found[name].size]
        if first.dtype.kind == "f" and values and all(bool(np.isnan(value).all()) for value in values):
            raise InputError(
                f"output {name} of the source is NaN everywhere in every case, so nothing can be proven; check the "
                "weights, and the values of the inputs with --samples"
            )

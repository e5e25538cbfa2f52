"""Between the source's dtypes and an artifact's: exact, or an error. Nothing ever wraps."""

from __future__ import annotations

from typing import Any

import numpy as np

from convert.errors import StageError

Array = np.ndarray[Any, Any]


def cast_exactly(name: str, value: Array, dtype: Any) -> Array:
    """``value`` as ``dtype``, without any change of an integer's value.

    Raises:
        StageError: an integer does not fit, such as an int64 token beyond int32.
    """
    wanted = np.dtype(dtype)
    if value.dtype == wanted:
        return value
    if value.dtype.kind in "iub" and wanted.kind in "iub" and value.size:
        low, high = (0, 1) if wanted.kind == "b" else (np.iinfo(wanted).min, np.iinfo(wanted).max)
        smallest, largest = int(value.min()), int(value.max())
        if smallest < low or largest > high:
            outside = smallest if smallest < low else largest
            raise StageError(
                f"{name} holds {outside}, which does not fit the artifact's {wanted} ({low}..{high}); "
                f"keep the values in that range or choose a target with {value.dtype}"
            )
    with np.errstate(invalid="ignore", over="ignore"):
        result = value.astype(wanted)
        same = (value.dtype.kind == "f") == (wanted.kind == "f") or np.array_equal(result.astype(value.dtype), value)
    if not same:
        raise StageError(
            f"{name} holds values of {value.dtype} that {wanted} cannot hold exactly; "
            "the artifact has another dtype there than the source"
        )
    return result

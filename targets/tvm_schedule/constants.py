"""Constant arithmetic of a Relax function, done by numpy: TVM compiles a kernel for every such step, at 50 ms each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _axes(call: Any) -> list[int] | None:
    return None if call.attrs.axes is None else [int(axis) for axis in call.attrs.axes]


def _sizes(values: Sequence[Any]) -> list[int] | None:
    found = [value if isinstance(value, int) else getattr(value, "value", None) for value in values]
    return None if any(value is None for value in found) else [int(value) for value in found if value is not None]


def _shaped(call: Any, arrays: Sequence[Array]) -> Array | None:
    sizes = _sizes(call.ty.shape.values) if call.ty.shape is not None else None
    return None if sizes is None else arrays[0].reshape(sizes)


#: Exact in float32 on any machine (IEEE 754), so that it does not matter who computes them.
FOLDED: Mapping[str, Callable[[Any, Sequence[Array]], Array | None]] = {
    "relax.permute_dims": lambda call, arrays: arrays[0].transpose(_axes(call)),
    "relax.reshape": _shaped,
    "relax.expand_dims": _shaped,
    "relax.squeeze": _shaped,
    "relax.flatten": _shaped,
    "relax.isnan": lambda _, arrays: np.isnan(arrays[0]),
    "relax.less": lambda _, arrays: np.less(*arrays),
    "relax.where": lambda _, arrays: np.where(*arrays),
    "relax.add": lambda _, arrays: np.add(*arrays),
    "relax.subtract": lambda _, arrays: np.subtract(*arrays),
    "relax.multiply": lambda _, arrays: np.multiply(*arrays),
    "relax.sqrt": lambda _, arrays: np.sqrt(arrays[0]),
}
#: Those of which only the first argument is a tensor.
ONE = frozenset({"relax.permute_dims", "relax.reshape", "relax.expand_dims", "relax.squeeze", "relax.flatten"})


def value_of(expression: Any) -> Array | None:
    """The array of a constant; None for anything else, and for a dtype that numpy lacks."""
    held = getattr(expression, "value", None)
    data: Any = getattr(expression, "data", None) if held is None else held
    if not hasattr(data, "numpy"):
        return None
    array: Array = data.numpy()
    return array if array.dtype.kind in "fiub" else None


def folded(call: Any, lookup: Callable[[Any], Array | None]) -> Array | None:
    """The result of a call of constants, where it is known how; ``lookup`` gives the array of an argument."""
    name = str(getattr(call.op, "name", ""))
    if name not in FOLDED:
        return None
    arrays = [lookup(one) for one in (call.args[:1] if name in ONE else call.args)]
    given = [array for array in arrays if array is not None]
    if len(given) != len(arrays):
        return None
    with np.errstate(all="ignore"):
        result = FOLDED[name](call, given)
    if result is None or str(result.dtype) != str(call.ty.dtype).removeprefix("T."):
        return None
    return np.ascontiguousarray(result).reshape(result.shape)

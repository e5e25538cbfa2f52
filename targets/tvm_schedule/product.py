"""Products of matrices as tensor expressions, with the second matrix packed: when compiling, or by a first step.

As in ``convolution.py``, whole tiles are summed and the part that counts is copied. Rows beyond the last are read from
the last, which saves a copy of the matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from convert.targets.tvm_schedule.convolution import counted
from convert.targets.tvm_schedule.marks import PACK, SUM, marks
from convert.targets.tvm_schedule.tiles import GemmTile, ceil_div

Array = np.ndarray[Any, Any]


def pack(weights: Array, columns: int) -> Array:
    """``[K, N]`` as ``[ceil(N / columns), K, columns]``, filled up with zeros."""
    depth, outputs = weights.shape
    blocks = ceil_div(outputs, columns)
    padded = np.pad(weights, ((0, 0), (0, blocks * columns - outputs)))
    return np.ascontiguousarray(padded.reshape(depth, blocks, columns).transpose(1, 0, 2))


def dense(x: Any, weights: Any, outputs: int, tile: GemmTile) -> Any:
    """``x [..., M, K]``, ``weights`` as of :func:`pack`; the result is ``[..., M, outputs]``, float32."""
    columns = tile.columns
    return _product(
        x,
        x.shape[:-2],
        outputs,
        tile,
        "dense",
        lambda at, k, o: weights[o // columns, k, o % columns],
        tuple(x.shape[:-2]),
    )


def matmul(x: Any, y: Any, lead: Sequence[Any], tile: GemmTile) -> Any:
    """``x [..., M, K] @ y [..., K, N]``; ``lead`` are the leading sizes of the result, to which both broadcast."""
    from tvm import te, tirx

    *before, depth, outputs = y.shape
    columns = tile.columns

    def packed(*at: Any) -> Any:
        *front, block, k, o = at
        column = block * columns + o
        if _multiple(outputs, columns):
            return y(*front, k, column)
        return tirx.if_then_else(column < outputs, y(*front, k, column), tirx.const(0.0, "float32"))

    blocks = te.compute((*before, ceil_div(_plain(outputs), columns), depth, columns), packed, name=PACK)

    def value(at: Sequence[Any], k: Any, o: Any) -> Any:
        return blocks(*_broadcast(at, before), o // columns, k, o % columns)

    return _product(x, lead, outputs, tile, "matmul", value, tuple(x.shape[:-2]))


def _product(
    x: Any, lead: Sequence[Any], outputs: Any, tile: GemmTile, rule: str, value: Any, before: Sequence[Any]
) -> Any:
    from tvm import te, tirx

    rows, depth = x.shape[-2:]
    steps = [1] * (len(lead) - 1) + [tile.high, tile.wide] if lead else [tile.wide]
    sizes = [_plain(size) for size in (*lead, rows)]
    whole = [ceil_div(size, step) * step for size, step in zip(sizes, steps, strict=True)]
    k = te.reduce_axis((0, depth), "k")

    def total(*at: Any) -> Any:
        *axes, o = at
        read = [
            axis if _multiple(size, step) else tirx.min(axis, size - 1)
            for axis, size, step in zip(axes, sizes, steps, strict=True)
        ]
        return te.sum(x(*_broadcast(read[:-1], before), read[-1], k) * value(read[:-1], k, o), axis=[k])

    columns = ceil_div(_plain(outputs), tile.columns) * tile.columns
    sums = te.compute((*whole, columns), total, name=SUM, attrs=marks(rule, tile))
    return counted((*lead, rows, outputs), sums)


def _plain(size: Any) -> Any:
    """A number where it is one, else the expression."""
    value = size if isinstance(size, int) else getattr(size, "value", None)
    return size if value is None else int(value)


def _multiple(size: Any, step: int) -> bool:
    plain = _plain(size)
    return step == 1 or (isinstance(plain, int) and plain % step == 0)


def _broadcast(at: Sequence[Any], shape: Sequence[Any]) -> list[Any]:
    """Where to read in leading axes of ``shape``, for a place in those of the result."""
    places = list(at)[len(at) - len(shape) :]
    return [0 if _plain(size) == 1 else place for place, size in zip(places, shape, strict=True)]

"""Convolutions of images as tensor expressions: NHWC, weights packed when the model is compiled.

Both kernels have two steps: a sum over tiles that are whole, and a copy of the part that counts, into which TVM fuses
what follows. So sizes need not be multiples of the tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from convert.targets.tvm_schedule.marks import PAD, SUM, marks
from convert.targets.tvm_schedule.tiles import DepthwiseTile, GemmTile, ceil_div

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Window:
    """How the kernel moves over the image: ``(vertical, horizontal)``, and padding as top, left, bottom, right.

    With ``spread``, the image has as many steps from one of its pixels to the next, and zeros between them.
    """

    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    spread: tuple[int, int] = (1, 1)

    def extent(self, axis: int, outputs: int, kernel: int) -> int:
        """Pixels that ``outputs`` results of a kernel of ``kernel`` taps see along ``axis``."""
        return (outputs - 1) * self.strides[axis] + self.dilation[axis] * (kernel - 1) + 1

    def outputs(self, axis: int, size: int, kernel: int) -> int:
        """Results along ``axis`` of an image of ``size`` pixels."""
        seen = (size - 1) * self.spread[axis] + 1 + self.padding[axis] + self.padding[axis + 2]
        return (seen - self.dilation[axis] * (kernel - 1) - 1) // self.strides[axis] + 1


def pack(weights: Array, columns: int) -> Array:
    """``[KH, KW, I, O]`` as ``[ceil(O / columns), KH, KW, I, columns]``, filled up with zeros."""
    high, wide, channels, outputs = weights.shape
    blocks = ceil_div(outputs, columns)
    padded = np.pad(weights, ((0, 0), (0, 0), (0, 0), (0, blocks * columns - outputs)))
    return np.ascontiguousarray(padded.reshape(high, wide, channels, blocks, columns).transpose(3, 0, 1, 2, 4))


def convolution(x: Any, weights: Any, window: Window, outputs: int, groups: int, tile: GemmTile) -> Any:
    """``x [N, H, W, C]``, ``weights`` as of :func:`pack`; the result is ``[N, OH, OW, outputs]``, float32."""
    from tvm import te

    batch, *image, _ = x.shape
    blocks, *kernel, channels, columns = (int(size) for size in weights.shape)
    sizes = [window.outputs(axis, int(image[axis]), kernel[axis]) for axis in (0, 1)]
    padded = [ceil_div(size, step) * step for size, step in zip(sizes, (tile.high, tile.wide), strict=True)]
    source = _padded(x, window, [window.extent(axis, padded[axis], kernel[axis]) for axis in (0, 1)])
    taps = [te.reduce_axis((0, size), name) for size, name in zip((*kernel, channels), ("kh", "kw", "kc"), strict=True)]
    (down, right), (low, far) = window.strides, window.dilation
    kh, kw, kc = taps

    def total(n: Any, i: Any, j: Any, o: Any) -> Any:
        first = 0 if groups == 1 else o // (outputs // groups) * channels
        pixel = source[n, i * down + kh * low, j * right + kw * far, first + kc]
        return te.sum(pixel * weights[o // columns, kh, kw, kc, o % columns], axis=taps)

    rule = (
        "conv2d-transposed"
        if window.spread != (1, 1)
        else "conv2d-grouped"
        if groups > 1
        else "conv2d-1x1"
        if kernel == [1, 1]
        else "conv2d"
    )
    sums = te.compute((batch, *padded, blocks * columns), total, name=SUM, attrs=marks(rule, tile))
    return counted((batch, *sizes, outputs), sums)


def depthwise(x: Any, weights: Any, window: Window, tile: DepthwiseTile) -> Any:
    """``x [N, H, W, C]``, ``weights [KH, KW, C or more]``; the result is ``[N, OH, OW, C]``, float32."""
    from tvm import te

    batch, *image, channels = x.shape
    *kernel, padded = (int(size) for size in weights.shape)
    sizes = [window.outputs(axis, int(image[axis]), kernel[axis]) for axis in (0, 1)]
    seen = [window.extent(axis, sizes[axis], kernel[axis]) for axis in (0, 1)]
    source = _padded(x, window, seen, padded - int(channels))
    kh, kw = te.reduce_axis((0, kernel[0]), "kh"), te.reduce_axis((0, kernel[1]), "kw")
    (down, right), (low, far) = window.strides, window.dilation

    def total(n: Any, i: Any, j: Any, c: Any) -> Any:
        return te.sum(source[n, i * down + kh * low, j * right + kw * far, c] * weights[kh, kw, c], axis=[kh, kw])

    sums = te.compute((batch, *sizes, padded), total, name=SUM, attrs=marks("depthwise", tile))
    return counted((batch, *sizes, channels), sums)


def _padded(x: Any, window: Window, seen: Sequence[int], channels: int = 0) -> Any:
    """The image with its border, and with as much more behind it as whole tiles read."""
    from tvm import topi

    if window.spread != (1, 1):
        return _spread(x, window, seen)
    _, high, wide, _ = x.shape
    top, left, _, _ = window.padding
    more = [max(0, seen[0] - int(high) - top), max(0, seen[1] - int(wide) - left)]
    if not any((top, left, *more, channels)):
        return x
    return topi.nn.pad(x, [0, top, left, 0], [0, *more, channels], name=PAD)


def _spread(x: Any, window: Window, seen: Sequence[int]) -> Any:
    from tvm import te, tirx

    batch, high, wide, channels = x.shape
    (down, right), (top, left, _, _) = window.spread, window.padding

    def value(n: Any, i: Any, j: Any, c: Any) -> Any:
        row, column = i - top, j - left
        there = [
            row >= 0,
            row % down == 0,
            row // down < high,
            column >= 0,
            column % right == 0,
            column // right < wide,
        ]
        return tirx.if_then_else(tirx.all(*there), x[n, row // down, column // right, c], tirx.const(0.0, "float32"))

    return te.compute((batch, *seen, channels), value, name=PAD)


def counted(shape: Sequence[Any], sums: Any) -> Any:
    """The part of ``sums`` that counts: all but what fills up the last tiles."""
    from tvm import te

    def value(*at: Any) -> Any:
        return sums(*at)

    return te.compute(tuple(shape), value, name="convert_out")

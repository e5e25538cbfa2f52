"""From the values of a tensor to the range that its integers cover; the same rules for every target.

Values are streamed: a tensor costs one histogram, however many samples there are, and the result depends neither on
their order nor on how they were batched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from convert.errors import StageError

RULES = ("minmax", "percentile", "mse")
#: Even, so that bins can be merged in pairs about zero.
_BINS = 8192
#: Candidates that the rule ``mse`` tries on either side of zero, closer together near it: one outlier may be far out.
_STEPS = 100

Range = tuple[float, float]
Array = np.ndarray[Any, Any]


class Ranges:
    """Collects values by tensor name and gives each tensor's range."""

    def __init__(self, rule: str = "minmax", percentile: float = 99.99, *, symmetric: bool = False) -> None:
        """Begin without values.

        Args:
            rule: ``minmax``, ``percentile`` (the range holds that share of the values, as much left out on either
                side) or ``mse`` (the least squared error of clipping and rounding to 8 bits together).
            percentile: share of the values in percent, for that rule.
            symmetric: ranges are ``-a .. a``.
        """
        if rule not in RULES:
            raise StageError(f"there is no range rule {rule!r}; choose one of {', '.join(RULES)}")
        self._rule = rule
        self._percentile = percentile
        self._symmetric = symmetric
        self._tensors: dict[str, _Values] = {}

    def add(self, values: Mapping[str, Any]) -> None:
        """Take in arrays by tensor name; what is not floating is left out."""
        for name, value in values.items():
            array = np.asarray(value)
            if array.dtype.kind == "f" and array.size:
                self._tensors.setdefault(name, _Values(histogram=self._rule != "minmax")).add(array)

    def result(self) -> dict[str, Range]:
        """Tensor name -> lowest and highest value, zero inside. Tensors with NaN or infinity have no range."""
        return {name: self._range(values) for name, values in self._tensors.items() if values.finite}

    def _range(self, values: _Values) -> Range:
        low, high = min(values.low, 0.0), max(values.high, 0.0)
        if self._symmetric:
            low, high = 0.0, max(-low, high)
        if self._rule != "minmax" and high > low:
            edges, counts = _folded(*values.bins()) if self._symmetric else values.bins()
            if self._rule == "percentile":
                found = self._by_percentile(edges, counts, values.zeros)
            else:
                found = self._by_error(edges, counts, (low, high))
            low, high = max(found[0], low), min(found[1], high)
        return (-high, high) if self._symmetric else (low, high)

    def _by_percentile(self, edges: Array, counts: Array, zeros: int) -> Range:
        """Bounds of the fewest bins that leave out at most half of the rest on either side."""
        counts = counts.copy()
        counts[np.searchsorted(edges, 0.0, side="right") - 1] += zeros
        total = counts.sum()
        rest = total * (100.0 - self._percentile) / 100.0 / (1 if self._symmetric else 2)
        upper = int(np.searchsorted(np.cumsum(counts), total - rest))
        lower = 0 if self._symmetric else int(np.searchsorted(np.cumsum(counts), rest, side="right"))
        return min(float(edges[lower]), 0.0), max(float(edges[min(upper, counts.size - 1) + 1]), 0.0)

    def _by_error(self, edges: Array, counts: Array, widest: Range) -> Range:
        """The bounds with the least squared error of clipping and rounding; zero itself has none."""
        middles = (edges[:-1] + edges[1:]) / 2
        lows, highs = (bound * np.linspace(0.0, 1.0, _STEPS + 1) ** 2 for bound in widest)
        cut_low = np.array([(counts * np.maximum(bound - middles, 0.0) ** 2).sum() for bound in lows])
        cut_high = np.array([(counts * np.maximum(middles - bound, 0.0) ** 2).sum() for bound in highs])
        up_to = np.concatenate([[0.0], np.cumsum(counts)])
        below, above = (np.interp(bounds, edges, up_to) for bounds in (lows, highs))
        # Folded values stand for both signs, so that their range is twice as wide.
        width = (highs[None, :] - lows[:, None]) * (2 if self._symmetric else 1)
        rounding = (above[None, :] - below[:, None]) * (width / 255.0) ** 2 / 12.0
        best = np.unravel_index(int(np.argmin(cut_low[:, None] + cut_high[None, :] + rounding)), rounding.shape)
        return float(lows[best[0]]), float(highs[best[1]])


def _folded(edges: Array, counts: Array) -> tuple[Array, Array]:
    """The histogram of the absolute values; ``edges`` lie evenly about zero."""
    half = counts.size // 2
    return edges[half:], counts[half:] + counts[:half][::-1]


class _Values:
    """What is kept of one tensor: its extremes, how many zeros, and a histogram of the others."""

    def __init__(self, *, histogram: bool) -> None:
        self.low, self.high, self.zeros, self.finite = np.inf, -np.inf, 0, True
        self._histogram = histogram
        self._counts = np.zeros(_BINS if histogram else 0)
        #: Width of a bin as a power of two, None before the first value that is not zero. Bins lie evenly about zero.
        self._power: int | None = None

    def add(self, array: Array) -> None:
        low, high = float(array.min()), float(array.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            self.finite = False
        if not self.finite:
            return
        self.low, self.high = min(self.low, low), max(self.high, high)
        if self._histogram:
            self._count(array.astype(np.float64, copy=False).ravel())

    def bins(self) -> tuple[Array, Array]:
        """Edges and counts."""
        return (np.arange(_BINS + 1) - _BINS // 2) * 2.0 ** (self._power or 0), self._counts

    def _count(self, values: Array) -> None:
        others = values[values != 0]
        self.zeros += values.size - others.size
        if others.size:
            self._widen(float(np.abs(others).max()))
            index = np.floor(others / 2.0 ** (self._power or 0)).astype(np.int64) + _BINS // 2
            self._counts += np.bincount(np.clip(index, 0, _BINS - 1), minlength=_BINS)

    def _widen(self, largest: float) -> None:
        """Merge bins in pairs until ``largest`` has one; exact, since every wider bin is two whole ones."""
        needed = int(np.ceil(np.log2(largest))) - int(np.log2(_BINS // 2))
        if self._power is None:
            self._power = needed
        while self._power < needed:
            pairs = self._counts.reshape(-1, 2).sum(1)
            self._counts = np.concatenate([np.zeros(_BINS // 4), pairs, np.zeros(_BINS // 4)])
            self._power += 1

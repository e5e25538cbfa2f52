"""How near an artifact's outputs are to the source's on real data, summed up batch by batch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from convert.errors import StageError
from convert.records import Quality
from convert.validators.numbers import interface_failure

Array = np.ndarray[Any, Any]


class Tally:
    """Adds up batches; memory does not grow with their number."""

    def __init__(self) -> None:
        """Nothing is added yet."""
        self._sums: dict[str, _Sums] = {}
        self._samples = 0
        self._size: int | None = None

    def add(
        self, reference: Mapping[str, Array], actual: Mapping[str, Any], samples: int, size: int | None = None
    ) -> None:
        """Add one batch.

        Args:
            reference: output name -> the source's array.
            actual: output name -> the artifact's array of the same dtype and shape.
            samples: how many real samples are in it, first of all; the others fill it up and are not counted.
            size: how many samples the batch has room for: outputs whose first axis is as long are cut to ``samples``.
                0 where the axes count no samples; None for that of the batches before, and in a first batch
                ``samples``.

        Raises:
            StageError: an output is missing, is too much, or has another dtype or shape.
        """
        _require_same_names(reference, actual)
        if size is None:
            size = samples if self._size is None else self._size
        for name, array in reference.items():
            failure = interface_failure(array, actual[name])
            if failure:
                raise StageError(f"the quality of output {name} cannot be measured: {failure}")
            cut = slice(samples) if array.ndim and size and array.shape[0] == size else ...
            sums = self._sums.setdefault(name, _Sums())
            sums.add(array[cut], actual[name][cut])
        self._size = size
        self._samples += samples

    def result(self) -> tuple[Quality, ...]:
        """One record for each output, in the order of the source.

        - ``sqnr_db``: ten times the logarithm of sum(source²) / sum((source - artifact)²) over the elements where the
          source is finite. Infinity where nothing differs; minus infinity where the artifact is not finite and the
          source is, and where there is noise without a signal; NaN where the source has no finite element at all.
          Integers and booleans count as the numbers that they are.
        - ``cosine``: of the angle between both, over the same elements; 1 where both are all zeros, NaN where it has
          no meaning.
        - ``max_error``: infinity where the artifact is not finite.
        - ``agreement``: of scores (floats of shape ``[batch, classes]`` with two classes or more) the share of rows
          whose largest element, the first of equals, stands at the same place; of integers and booleans the share of
          equal elements; None for other floats.

        Raises:
            StageError: no batch was added.
        """
        if not self._samples:
            raise StageError("there was not one sample to measure the quality on")
        return tuple(sums.quality(name, self._samples) for name, sums in self._sums.items())


def _require_same_names(reference: Mapping[str, Array], actual: Mapping[str, Any]) -> None:
    for names, others, text in ((reference, actual, "the artifact"), (actual, reference, "the source")):
        lost = sorted(set(names) - set(others))
        if lost:
            raise StageError(f"the quality cannot be measured: {text} has no output {lost[0]}")


@dataclass
class _Sums:
    """Sums in float64 over the elements of one output where the source is finite."""

    signal: float = 0.0
    noise: float = 0.0
    product: float = 0.0
    energy: float = 0.0
    worst: float = 0.0
    elements: int = 0
    finite: int = 0
    broken: bool = False
    equal: int = 0
    compared: int = 0

    def add(self, reference: Array, actual: Array) -> None:
        """Add two arrays of one shape and dtype."""
        self._add_agreement(reference, actual)
        finite = np.isfinite(reference)
        wanted, got = reference[finite].astype(np.float64), actual[finite].astype(np.float64)
        self.elements += reference.size
        self.finite += wanted.size
        if not np.isfinite(got).all():
            self.broken = True
        if self.broken or not wanted.size:
            return
        # Large float64 outputs may overflow: the result is then no number, which meets no gate.
        with np.errstate(over="ignore", invalid="ignore"):
            error = got - wanted
            self.signal += float(wanted @ wanted)
            self.noise += float(error @ error)
            self.product += float(wanted @ got)
            self.energy += float(got @ got)
            self.worst = max(self.worst, float(np.abs(error).max()))

    def _add_agreement(self, reference: Array, actual: Array) -> None:
        if reference.dtype.kind != "f":
            self.equal += int(np.count_nonzero(reference == actual))
            self.compared += reference.size
        elif reference.ndim == 2 and reference.shape[1] >= 2 and reference.shape[0]:
            sane = ~np.isnan(actual).any(axis=-1)  # the largest of NaN is nothing that could agree
            self.equal += int(np.count_nonzero((reference.argmax(-1) == actual.argmax(-1)) & sane))
            self.compared += reference.shape[0]

    def quality(self, name: str, samples: int) -> Quality:
        """The record of these sums."""
        agreement = self.equal / self.compared if self.compared else None
        worst = math.inf if self.broken else self.worst
        if self.elements and not self.finite:
            worst = math.nan
        return Quality(name, samples, self._sqnr(), self._cosine(), worst, agreement)

    def _sqnr(self) -> float:
        if self.broken:
            return -math.inf
        if (self.elements and not self.finite) or not math.isfinite(self.signal):
            return math.nan
        if self.noise == 0:
            return math.inf
        # Logarithms one by one: the quotient of a very small and a very large number is rounded to zero.
        return 10 * (math.log10(self.signal) - math.log10(self.noise)) if self.signal else -math.inf

    def _cosine(self) -> float:
        if self.broken or (self.elements and not self.finite):
            return math.nan
        if self.signal == self.energy == 0:
            return 1.0
        length = math.sqrt(self.signal) * math.sqrt(self.energy)
        if length == 0:
            return 0.0
        # Rounding may reach beyond 1, and an overflow has no angle.
        return max(-1.0, min(1.0, self.product / length)) if math.isfinite(length) else math.nan

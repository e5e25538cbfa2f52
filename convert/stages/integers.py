"""Find the valid range of integer inputs: stated, else seen in samples, else the largest that the source accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from convert.cases import draw, plan_cases
from convert.errors import InputError
from convert.records import Dim, InputSpec
from convert.specs import format_input

Array = np.ndarray[Any, Any]
#: Largest values tried, widest first: an index beyond its table is an error in the source, and so narrows the range.
_TRIED = (29_999, 9_999, 999, 255, 99, 31, 9, 3, 1, 0)


def bound_integers(
    specs: Sequence[InputSpec],
    dims: Sequence[Dim],
    samples: Sequence[Mapping[str, Array]],
    run: Callable[[Mapping[str, Array]], Any],
) -> tuple[tuple[InputSpec, ...], list[str]]:
    """Give every integer input a range; returns the specs and a note for each range that was found by trying.

    Raises:
        InputError: the source fails on every range tried.
    """
    # Start with the narrowest range everywhere, so that one input's range is tried with the others valid.
    open_names = [spec.name for spec in specs if _is_integer(spec) and spec.high is None]
    settled = [replace(spec, low=0, high=0) if spec.name in open_names else spec for spec in specs]
    notes = []
    for index, spec in enumerate(settled):
        if spec.name not in open_names:
            continue
        seen = [feeds[spec.name] for feeds in samples]
        if seen:
            bounds = min(int(a.min()) for a in seen), max(int(a.max()) for a in seen)
            settled[index] = replace(spec, low=bounds[0], high=bounds[1])
            continue
        settled[index] = _widest(settled, index, dims, run)
        notes.append(
            f"{spec.name} was drawn from {settled[index].low}..{settled[index].high}, the widest range tried "
            f"that the source accepts; pin it with --input '{format_input(settled[index])}'"
        )
    return tuple(settled), notes


def _widest(
    specs: Sequence[InputSpec], index: int, dims: Sequence[Dim], run: Callable[[Mapping[str, Array]], Any]
) -> InputSpec:
    limit = np.iinfo(np.dtype(specs[index].dtype)).max
    tried = (1,) if "mask" in specs[index].name.lower() else tuple(high for high in _TRIED if high <= limit)
    failure = ""
    for high in tried:
        candidate = replace(specs[index], low=0, high=high)
        trial = [candidate if place == index else spec for place, spec in enumerate(specs)]
        highest = next(plan for plan in plan_cases(trial, dims) if plan.name == "edge-highest")
        try:
            run(draw(highest, trial, {}))
        except Exception as error:  # what a user's module raises for an index that is too large
            failure = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            continue
        return candidate
    raise InputError(
        f"no range of integers was found that the source accepts for {specs[index].name} ({failure}); "
        f"state it, for example --input '{specs[index].name}={specs[index].dtype}[...]{{0..99}}'"
    )


def _is_integer(spec: InputSpec) -> bool:
    return np.issubdtype(np.dtype(spec.dtype), np.integer)

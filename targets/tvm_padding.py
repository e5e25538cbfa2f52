"""Whether a dimension may be padded, found by running modules of two sizes: nothing is assumed of the model.

A batch passes. A softmax, a mean, a convolution or a recurrent layer over the dimension lets padding into the results
and is seen by it: results must be the same, bit for bit, whatever the padding holds, and must be those of the module
that was compiled for the very size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convert.golden_io import load_case
from convert.records import Case, Dim, Golden, InputSpec
from convert.targets.tvm_bucket_engine import Array, Engine, cut, pad
from convert.targets.tvm_buckets import bucket_for

#: What the padding holds: the last row again, as in use; and what a maximum, a minimum, a mean or an index would show.
FILLS = ("repeat", "low", "high", "noise")
#: Largest error of every output of every case, as ``convert.limits.all_limits`` gives it.
Limits = Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True)
class Trial:
    """A case, and the sizes of a larger module that must give the same results."""

    case: Case
    sizes: dict[str, int]


def trials(dim: Dim, steps: Sequence[int], cases: Sequence[Case]) -> list[Trial]:
    """How ``dim`` is tried alone: a size without a module in its bucket, and the smallest size in the largest one."""
    draws = [case for case in cases if case.origin == "draw" and case.dims[dim.name] < dim.max]
    usual = [case.dims for case in cases if case.name == "opt-draw0"]
    inside = [case for case in draws if case.dims[dim.name] not in steps]
    # Cases in which the other dimensions are at their usual sizes come first: their modules are made anyway.
    inside.sort(key=lambda case: sum(case.dims[name] != size for one in usual for name, size in one.items()))
    found = [Trial(one, one.dims | {dim.name: bucket_for(one.dims[dim.name], steps)}) for one in inside[:1]]
    smallest = min(draws, key=lambda case: case.dims[dim.name], default=None)
    if smallest is not None:
        found.append(Trial(smallest, smallest.dims | {dim.name: dim.max}))
    return [one for place, one in enumerate(found) if one not in found[:place]]


def joint_trial(padded: Sequence[str], sizes: Mapping[str, Sequence[int]], cases: Sequence[Case]) -> Trial | None:
    """A case in which two or more dimensions are padded at once; None where there is none."""
    for case in cases:
        off = [name for name in padded if case.dims[name] not in sizes[name]]
        if case.origin == "draw" and len(off) > 1:
            return Trial(case, case.dims | {name: bucket_for(case.dims[name], sizes[name]) for name in padded})
    return None


def difference(
    trial: Trial, golden: Golden, folder: Path, limits: Limits, engine: Callable[[Mapping[str, int]], Engine]
) -> str:
    """Why the larger module gives other results than the exact one; empty where it does not.

    Args:
        trial: what is tried.
        golden: the interface.
        folder: the cases lie here.
        limits: how far apart modules of two sizes may be, since they may sum in another order.
        engine: gives the module of some sizes.
    """
    data = load_case(folder, trial.case)
    feeds = [data.feeds[spec.name] for spec in golden.inputs]
    exact, larger = engine(trial.case.dims)(feeds), engine(trial.sizes)
    first: list[Array] = []
    for fill in FILLS:
        padded = [
            _filled(spec, feed, trial.sizes, fill, np.random.default_rng(place))
            for place, (spec, feed) in enumerate(zip(golden.inputs, feeds, strict=True))
        ]
        results = [
            cut(value, spec.shape, trial.case.dims) for spec, value in zip(golden.outputs, larger(padded), strict=True)
        ]
        first = first or results
        for spec, value, before, wanted in zip(golden.outputs, results, first, exact, strict=True):
            why = _unlike(value, before, wanted, limits[trial.case.name][spec.name]["max_error"])
            if why:
                return f"output {spec.name} {why} ({_told(trial)})"
    return ""


def _told(trial: Trial) -> str:
    changed = [f"{name}={size}" for name, size in trial.case.dims.items() if trial.sizes[name] != size]
    larger = [f"{name}={trial.sizes[name]}" for name, size in trial.case.dims.items() if trial.sizes[name] != size]
    return f"case {trial.case.name}, {', '.join(changed)} in {', '.join(larger)}"


def _unlike(value: Array, before: Array, exact: Array, limit: float) -> str:
    if (value.shape, value.dtype) != (exact.shape, exact.dtype):
        return f"has shape {list(value.shape)} where {list(exact.shape)} is right"
    if not np.array_equal(value, before, equal_nan=value.dtype.kind == "f"):
        return "changes with what is in the padding"
    wide = np.complex128 if value.dtype.kind == "c" else np.float64
    if not np.allclose(value.astype(wide), exact.astype(wide), rtol=0.0, atol=limit, equal_nan=True):
        return "changes with the size of the padding"
    return ""


def _filled(spec: InputSpec, value: Array, sizes: Mapping[str, int], fill: str, rng: np.random.Generator) -> Array:
    """``value`` in the corner of an array of ``sizes``, the rest as ``fill`` says."""
    whole = pad(value, spec.shape, sizes)
    if fill == "repeat":
        return whole
    full = np.broadcast_to(_contents(spec, value, fill, whole.shape, rng), whole.shape).astype(value.dtype)
    full[tuple(slice(size) for size in value.shape)] = value
    return full


def _contents(spec: InputSpec, value: Array, fill: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if value.dtype.kind == "f":
        bound = 10 * float(np.abs(value).max(initial=0.1))
        return {"low": -bound, "high": bound}.get(fill, bound * rng.standard_normal(shape))
    low, high = spec.low or 0, 1 if spec.high is None else spec.high
    return {"low": low, "high": high}.get(fill, rng.integers(low, high, shape, endpoint=True))

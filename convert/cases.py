"""Choose the inputs that every artifact is proven on: which shapes, which draws, which edge values.

A wrong artifact is often right at the one shape it was exported with, so every dynamic dimension is tried at its
minimum, optimum and maximum, and at sizes that no export used; and several draws are taken, since one maximum is noisy.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from convert.precisions import FIXED, INTEGER
from convert.records import Artifact, Dim, Golden, InputSpec
from convert.specs import shape_at

Array = np.ndarray[Any, Any]
#: Edge values are multiples of what is usual for an input; float16 cannot be held to the largest of them.
LARGE = 100.0


@dataclass(frozen=True)
class Plan:
    """One case to be made: its name, where its values come from (``draw`` or ``edge``), sizes and seed."""

    name: str
    origin: str
    dims: dict[str, int]
    seed: int
    edge: str = ""


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation that the draws of a floating input follow."""

    mean: float = 0.0
    std: float = 1.0


def plan_cases(inputs: Sequence[InputSpec], dims: Sequence[Dim], odd: Mapping[str, int] | None = None) -> list[Plan]:
    """The cases to draw. Without dynamic dimensions there is one shape and the draws alone differ.

    Args:
        inputs: the interface.
        dims: the dynamic dimensions.
        odd: a size of each dimension that no export uses, where the source takes one; by default the first candidate.
    """
    opt = {dim.name: dim.opt for dim in dims}
    plans = [Plan("opt-draw0", "draw", opt, 0), Plan("opt-draw1", "draw", opt, 1)]
    if dims:
        plans.append(Plan("min-draw0", "draw", {dim.name: dim.min for dim in dims}, 2))
        plans.append(Plan("max-draw0", "draw", {dim.name: dim.max for dim in dims}, 3))
        plans += _odd_shapes(dims, opt, {dim.name: odd_sizes(dim)[0] for dim in dims} if odd is None else odd)
    else:
        plans.append(Plan("opt-draw2", "draw", opt, 4))
    if any(spec.dtype.startswith("float") for spec in inputs):
        plans += [Plan(f"edge-{edge}", "edge", opt, 5, edge) for edge in ("zeros", "constant", "large", "halves")]
    if any(_is_integer(spec) for spec in inputs):
        plans += [Plan(f"edge-{edge}", "edge", opt, 6, edge) for edge in ("lowest", "highest", "ends")]
    return plans


def _odd_shapes(dims: Sequence[Dim], opt: dict[str, int], odd: Mapping[str, int]) -> list[Plan]:
    """Sizes that are neither min, opt nor max, one dimension at a time and all at once."""
    plans = [Plan("odd-draw0", "draw", opt | dict(odd), 7)]
    if len(dims) > 1:
        plans += [Plan(f"odd-{name}-draw0", "draw", opt | {name: size}, 8) for name, size in odd.items()]
    return [plan for plan in plans if plan.dims != opt]


def odd_sizes(dim: Dim) -> list[int]:
    """Sizes to try a dimension at besides min, opt and max, best first; its minimum where there are no others.

    Odd ones near the optimum come first: cheap, and divisible by as little as possible.
    """
    inside = [size for size in range(dim.min, dim.max + 1) if size not in (dim.min, dim.opt, dim.max)]
    return sorted(inside, key=lambda size: (size % 2 == 0, abs(size - dim.opt), size)) or [dim.min]


def draw(plan: Plan, inputs: Sequence[InputSpec], spreads: dict[str, Spread]) -> dict[str, Array]:
    """Make the feeds of ``plan``; the same plan gives the same values on every machine."""
    feeds = {}
    for spec in inputs:
        rng = np.random.default_rng([plan.seed, zlib.crc32(spec.name.encode())])
        shape = shape_at(spec, plan.dims)
        feeds[spec.name] = _values(rng, plan.edge, spec, shape, spreads.get(spec.name, Spread()))
    return feeds


def _values(rng: np.random.Generator, edge: str, spec: InputSpec, shape: tuple[int, ...], spread: Spread) -> Array:
    if spec.dtype == "bool":
        values = rng.random(shape) < 0.75
        # A mask that hides everything is not what a mask is for; it would only compare NaN with NaN.
        if shape:
            values[..., :1] = True
        return np.asarray(values)
    if _is_integer(spec):
        low, high = spec.low or 0, 1 if spec.high is None else spec.high
        fixed = {"lowest": low, "highest": high}
        if edge in fixed:
            return np.full(shape, fixed[edge], spec.dtype)
        if edge == "ends":
            return rng.choice(_ends(low, high, spec.dtype), shape)
        return np.asarray(rng.integers(low, high, shape, dtype=np.dtype(spec.dtype), endpoint=True))
    normal = np.asarray(rng.standard_normal(shape))
    values = {
        "zeros": np.zeros(shape),
        "constant": np.full(shape, spread.mean + 0.5 * spread.std),
        "large": spread.mean + LARGE * spread.std * np.sign(normal),
        # Whole and half numbers, many of them alike: where rounding, division and the order of equals are decided.
        "halves": np.round(4 * (spread.mean + spread.std * normal)) / 2,
    }.get(edge, spread.mean + spread.std * normal)
    return np.asarray(values).astype(spec.dtype)


def _ends(low: int, high: int, dtype: str) -> Array:
    """The values of a range where signs, carries and tables end; each is drawn several times, so that some repeat."""
    places = (low, low + 1, -2, -1, 0, 1, 2, high - 1, high)
    return np.asarray(sorted({value for value in places if low <= value <= high}), dtype)


def _is_integer(spec: InputSpec) -> bool:
    return np.issubdtype(np.dtype(spec.dtype), np.integer)


def skipped_cases(precision: str, names: Sequence[str]) -> frozenset[str]:
    """Cases that a precision is not held to: float16 ends at 65504, which large edge values reach inside a model.

    So do inputs that were searched for; the float32 file that a lower one is made from is held to both. Integers cover
    the range of real data, and edge values lie beyond it.
    """
    if precision in INTEGER:
        return frozenset(name for name in names if name.startswith(("edge-", "branch")))
    beyond = (name for name in names if name == "edge-large" or name.startswith("branch"))
    return frozenset(beyond if precision == "float16" else ())


def left_out(artifact: Artifact, golden: Golden) -> frozenset[str]:
    """Cases that ``artifact`` is not held to: see :func:`skipped_cases`; and other sizes where its own are fixed.

    Only integer artifacts may fix sizes (``settings["fixed"]``); their notes say so.
    """
    skipped = skipped_cases(artifact.precision, [case.name for case in golden.cases])
    if artifact.precision not in INTEGER or not artifact.settings.get(FIXED):
        return skipped
    opt = {dim.name: dim.opt for dim in golden.dims}
    return skipped | {case.name for case in golden.cases if case.dims != opt}

"""One TVM module per bucket of sizes, for graphs that TVM cannot compile with dynamic sizes: which sizes get a module.

A dimension is *padded* where a module of a larger size gives the same results for the rows that were asked for; any
other dimension has a module for each of its sizes. Which dimensions may be padded is found by running the modules
(``tvm_padding.py``), never assumed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import isqrt, prod

from convert.errors import StageError
from convert.records import Dim

#: Modules of one artifact: each takes seconds to compile and holds all weights.
MOST_MODULES = 8
#: A larger step from one bucket to the next gets one more in between, since padding is computed in vain.
LARGEST_STEP = 4
ADVICE = f"give --dim a range of few sizes, which get a module each (at most {MOST_MODULES}), or fix them with --input"


@dataclass(frozen=True)
class Plan:
    """What is compiled.

    Attributes:
        sizes: dimension -> the sizes that have a module, smallest first.
        padded: dimensions whose other sizes are padded to the next of these.
    """

    sizes: Mapping[str, tuple[int, ...]]
    padded: tuple[str, ...]

    @property
    def modules(self) -> list[dict[str, int]]:
        """The sizes of every module, smallest first."""
        every = [dict(zip(self.sizes, values, strict=True)) for values in product(*self.sizes.values())]
        return sorted(every, key=lambda sizes: (prod(sizes.values()), *sizes.values()))


def ladder(dim: Dim, golden: Collection[int]) -> tuple[int, ...]:
    """The sizes that would get a module if ``dim`` could be padded; empty where no case could prove that it can.

    Args:
        dim: a dynamic dimension.
        golden: its sizes in the golden cases. At least one of them is left without a module, so that it is padded.
    """
    steps = {dim.min, dim.opt, dim.max}
    if dim.max - dim.min < len(steps):
        return ()  # every size has its module anyway
    if not set(golden) - steps:
        steps.discard(dim.opt if dim.min < dim.opt < dim.max else dim.min)
    if not set(golden) - steps:
        return ()
    while len(steps) < MOST_MODULES:
        small, large = max(pairwise(sorted(steps)), key=lambda pair: pair[1] / pair[0], default=(1, 1))
        between = isqrt(small * large)
        if large <= LARGEST_STEP * small or between in golden:
            break
        steps.add(between)
    return tuple(sorted(steps))


def bucket_for(size: int, steps: Sequence[int]) -> int:
    """The smallest of ``steps`` that holds ``size``."""
    return min(step for step in steps if step >= size)


def make_plan(dims: Sequence[Dim], ladders: Mapping[str, tuple[int, ...]], reasons: Mapping[str, str]) -> Plan:
    """Which sizes get a module, at most :data:`MOST_MODULES` in all.

    Args:
        dims: the dynamic dimensions.
        ladders: what :func:`ladder` gave for those that may be padded.
        reasons: why the others may not.

    Raises:
        StageError: the dimensions that cannot be padded have too many sizes.
    """
    sizes = {dim.name: ladders.get(dim.name) or tuple(range(dim.min, dim.max + 1)) for dim in dims}
    usual = {dim.name: dim.opt for dim in dims}
    while _count(sizes) > MOST_MODULES:
        longest = max(ladders, key=lambda name: len(sizes[name]), default=None)
        if longest is None or len(sizes[longest]) == 1:
            raise StageError(_too_many(sizes, ladders, reasons), ADVICE)
        sizes[longest] = _shorter(sizes[longest], usual[longest])
    return Plan(sizes, tuple(ladders))


def _count(sizes: Mapping[str, Sequence[int]]) -> int:
    return prod(len(steps) for steps in sizes.values())


def _shorter(steps: tuple[int, ...], usual: int) -> tuple[int, ...]:
    """Without the step that costs least: never the largest, and the usual size last of all."""
    spare = [place for place, step in enumerate(steps[:-1]) if step != usual] or [0]
    drop = min(spare, key=lambda place: steps[place + 1] / steps[max(place - 1, 0)])
    return steps[:drop] + steps[drop + 1 :]


def _too_many(
    sizes: Mapping[str, Sequence[int]], ladders: Mapping[str, Sequence[int]], reasons: Mapping[str, str]
) -> str:
    exact = [name for name in sizes if name not in ladders]
    ranges = ", ".join(f"{name}={sizes[name][0]}..{sizes[name][-1]}" for name in exact)
    why = "; ".join(f"{name} cannot be padded: {reasons[name]}" for name in exact if name in reasons)
    count = prod(len(sizes[name]) for name in exact)
    return (
        f"{ranges} would need {count} modules of fixed sizes, and at most {MOST_MODULES} are made ({why}); give --dim "
        "fewer sizes, or fix them with --input"
    )


def file_of(sizes: Mapping[str, int]) -> str:
    """The name of a module's file, such as ``model-N4-T20.so``."""
    return "-".join(("model", *(f"{name}{size}" for name, size in sizes.items()))) + ".so"

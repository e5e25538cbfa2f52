"""Random arguments for a kernel, with its sizes where they are known, and some sizes where they are not."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from convert.targets.tvm_schedule.marks import PACK, PAD, RULE

Array = np.ndarray[Any, Any]

#: For sizes that are known at run time: small and large, even and odd.
UNKNOWN = ((5, 18, 7, 3), (1, 1, 1, 1))
#: Values beside each argument, and bytes that vectors are aligned to.
MARGIN, ALIGNMENT = 1024, 64
#: Kinds of a block's axes (tirx/var.h: kDataPar, kCommReduce).
SPATIAL, REDUCED = 0, 2
#: In the text of a kernel: something divided by what an array holds.
_DIVISION = re.compile(r"(?://|%)\s*\(?\w+\[|T\.(?:truncmod|truncdiv|floormod|floordiv|Div|Mod)\(")


@dataclass(frozen=True)
class Sample:
    """Arguments of one run.

    Attributes:
        arrays: all of them, results included, in the kernel's order.
        results: places of those that are written.
        terms: the longest sum behind one value.
        steps: how often the innermost statements run, all together.
    """

    arrays: tuple[Array, ...]
    results: tuple[int, ...]
    terms: int
    steps: float

    def telling(self, result: Array) -> bool:
        """Whether a result can show an error: some of it is finite, and it is not the same everywhere."""
        if result.size < 2 or result.dtype.kind != "f":
            return True
        return bool(np.isfinite(result).any()) and bool((result != result.flat[0]).any())


class Guarded:
    """An argument in memory of its own, with margins that nothing may write to."""

    def __init__(self, array: Array) -> None:
        item = array.dtype.itemsize
        self._whole = np.full(array.size * item + 2 * MARGIN + ALIGNMENT, 0xA5, np.uint8)
        self._start = MARGIN + -(self._whole.ctypes.data + MARGIN) % ALIGNMENT
        self._end = self._start + array.size * item
        self._view = self._whole[self._start : self._end].view(array.dtype).reshape(array.shape)
        self._view[...] = array

    def tensor(self) -> Any:
        """What TVM takes; it writes into this very memory."""
        import tvm

        return tvm.runtime.from_dlpack(self._view)

    def checked(self) -> Array:
        """The argument as it is now.

        Raises:
            IndexError: something was written to the margins.
        """
        if (self._whole[: self._start] != 0xA5).any() or (self._whole[self._end :] != 0xA5).any():
            raise IndexError("it writes beside its arguments")
        return self._view


def samples(kernel: Any) -> Iterator[Sample]:
    """Arguments to compare a kernel with; several where sizes are open.

    Raises:
        ValueError: it has arguments that are no tensors, or no results.
    """
    unknown = _unknown(kernel)
    for sizes in UNKNOWN if unknown else UNKNOWN[:1]:
        known = {name: sizes[place % len(sizes)] for place, name in enumerate(unknown)}
        yield _sample(kernel, unknown, known)


def _unknown(kernel: Any) -> dict[str, Any]:
    """The sizes that are variables, by name."""
    from tvm import tirx

    found: dict[str, Any] = {}
    for parameter in kernel.params:
        if not hasattr(parameter.ty, "shape"):
            raise ValueError(f"{parameter.name} is no tensor")
        for size in parameter.ty.shape:
            if not isinstance(size, int):
                found |= {str(one.name): one for one in tirx.analysis.undefined_vars(size, [])}
    return found


def _sample(kernel: Any, unknown: Mapping[str, Any], known: Mapping[str, int]) -> Sample:
    rng = np.random.default_rng(0)
    every = _blocks(kernel)
    written = [region.source for block in every for region in block.writes]
    results = [place for place, one in enumerate(kernel.params) if any(one.same_as(source) for source in written)]
    if not results:
        raise ValueError("it is not known what it writes")
    terms = max((_extent(block, unknown, known, (REDUCED,)) for block in every), default=1)
    steps = sum(_extent(block, unknown, known, (SPATIAL, REDUCED)) for block in every)
    small = [region.source for block in every if _multiplies(block) for region in block.reads]
    # Zero as a divisor ends the process.
    least = 1 if _DIVISION.search(kernel.script()) else 0
    arrays = []
    for place, parameter in enumerate(kernel.params):
        shape = [_size(size, unknown, known) for size in parameter.ty.shape]
        dtype = np.dtype(str(parameter.ty.dtype).removeprefix("T."))
        if place in results:
            arrays.append(np.full(shape, np.nan if dtype.kind == "f" else 1, dtype))
        else:
            # Of the two factors of a sum one is small, so that what follows is not all in saturation.
            factor = terms**-0.25 if any(parameter.same_as(one) for one in small) else 1.0
            arrays.append(_values(rng, shape, dtype, factor, least))
    return Sample(tuple(arrays), tuple(results), terms, float(steps))


def _values(rng: np.random.Generator, shape: Sequence[int], dtype: Any, factor: float, least: int) -> Array:
    if dtype.kind == "f":
        return (rng.standard_normal(shape) * factor).astype(dtype)
    return rng.integers(least, least + 2, shape).astype(dtype)  # these may be indices


def _blocks(kernel: Any) -> list[Any]:
    from tvm import s_tir
    from tvm_ffi import structural_walk

    found: list[Any] = []
    structural_walk(kernel.body, (s_tir.SBlock, found.append))
    return [block for block in found if block.name_hint != "root"]


def _multiplies(block: Any) -> bool:
    return RULE in block.annotations or block.name_hint in (PAD, PACK)


def _extent(block: Any, unknown: Mapping[str, Any], known: Mapping[str, int], kinds: Sequence[int]) -> int:
    """The product of the extents of a block's axes of these kinds."""
    axes = (axis for axis in block.iter_vars if int(axis.iter_type) in kinds)
    return math.prod(_size(axis.dom.extent, unknown, known) for axis in axes)


def _size(size: Any, unknown: Mapping[str, Any], known: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    if hasattr(size, "value"):
        return int(size.value)
    from tvm.sym import Analyzer

    analyzer = Analyzer()
    for name, variable in unknown.items():
        analyzer.bind(variable, known[name])
    return int(analyzer.simplify(size))

"""Small questions and steps on a schedule of TVM that several rules share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Work below this (values, or multiply-adds) is not worth waking other threads for.
WORTH_THREADS = 1 << 14
#: Loops of TVM by kind, and axes of blocks by type (tvm/tirx/stmt.h, tvm/tirx/var.h).
VECTORIZED, UNROLLED = 2, 3
SPATIAL, REDUCED = 0, 2


def whole(schedule: Any) -> bool:
    """Whether the kernel is made of blocks: what was written as loops is one block only, and cannot be scheduled."""
    return str(getattr(getattr(schedule.mod["main"].body, "block", None), "name_hint", "")) == "root"


def blocks(schedule: Any) -> list[Any]:
    """The blocks of the kernel, first to last."""
    return list(schedule.get_child_blocks(schedule.get_sblock("root")))


def axes(schedule: Any, block: Any) -> list[int]:
    """Type of each axis of a block."""
    return [int(axis.iter_type) for axis in schedule.get(block).iter_vars]


def extent(schedule: Any, loop: Any) -> int | None:
    """Iterations of a loop; None where they are known at run time."""
    size = schedule.get(loop).extent
    value = size if isinstance(size, int) else getattr(size, "value", None)
    return None if value is None else int(value)


def work(schedule: Any, loops: Sequence[Any]) -> int | None:
    """Iterations of all loops together; None where they are known at run time."""
    product = 1
    for loop in loops:
        size = extent(schedule, loop)
        if size is None:
            return None
        product *= size
    return product


def parallel(schedule: Any, loop: Any, amount: int | None) -> None:
    """Give the loop to the threads, where there is work for them."""
    if (amount is None or amount >= WORTH_THREADS) and extent(schedule, loop) != 1:
        schedule.parallel(loop)


def unroll(schedule: Any, loops: Sequence[Any]) -> None:
    """Unroll what is not yet unrolled."""
    for loop in loops:
        if int(schedule.get(loop).kind) != UNROLLED:
            schedule.unroll(loop)


def vectorize(schedule: Any, loop: Any) -> None:
    """Make vectors of a loop, unless it is one already."""
    if int(schedule.get(loop).kind) != VECTORIZED and extent(schedule, loop) != 1:
        schedule.vectorize(loop)


def split_vector(schedule: Any, loop: Any, lanes: int) -> list[Any]:
    """Cut a loop into vectors, where its size allows; returns the loops, the last of which is the vector."""
    size = extent(schedule, loop)
    if size is not None and size % lanes == 0 and size > lanes:
        return list(schedule.split(loop, [None, lanes]))
    return [loop]


def inline_tail(schedule: Any, block: Any) -> Any:
    """Inline all that follows ``block`` into the last block, and return this."""
    every = blocks(schedule)
    names = [schedule.get(one).name_hint for one in every]
    start = names.index(schedule.get(block).name_hint)
    for one in every[start + 1 : -1]:
        schedule.compute_inline(one)
    return every[-1]

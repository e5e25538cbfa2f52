"""Everything that is no product: fused into few loops, spread over the threads, with vectors along the last axis."""

from __future__ import annotations

from typing import Any

from convert.targets.tvm_schedule import blocks
from convert.targets.tvm_schedule.registers import Registers

#: Calls that are cheap enough to be made twice, but not in every step of a sum; the results of others (exp, erf, tanh)
#: are kept where two blocks use them.
CHEAP = frozenset({"if_then_else", "likely", "max", "min", "fabs", "floor", "ceil", "round", "bitwise_and"})


def schedule_plain(schedule: Any, registers: Registers) -> dict[str, Any]:
    """Schedule a kernel of element-wise steps and reductions; returns the parameters."""
    _inline(schedule)
    for block in blocks.blocks(schedule):
        kinds = blocks.axes(schedule, block)
        if blocks.REDUCED not in kinds:
            by_vectors(schedule, block, registers.lanes)
        elif set(kinds) == {blocks.SPATIAL, blocks.REDUCED}:
            _reduce(schedule, block, registers.lanes)
    return {"lanes": registers.lanes}


def by_vectors(schedule: Any, block: Any, lanes: int) -> None:
    """Fuse the loops of a block without sums, cut vectors from the end and give the rest to the threads."""
    loops = schedule.get_loops(block)
    if not loops or set(blocks.axes(schedule, block)) != {blocks.SPATIAL}:
        return
    amount = blocks.work(schedule, loops)
    width = next((one for one in (lanes, lanes // 2) if _fits(schedule, loops[-1], one)), 0)
    outer, last = list(loops), None
    if width:
        rest, last = schedule.split(loops[-1], [None, width])
        outer = [*loops[:-1], rest]
    elif amount is not None and len(loops) > 1 and _flat(schedule, block):
        width = next(one for one in (lanes, lanes // 2, lanes // 4, 2, 1) if one and amount % one == 0)
        rest, last = schedule.split(schedule.fuse(*loops), [None, width])
        outer = [rest]
    if last is not None:
        blocks.vectorize(schedule, last)
    if outer:
        blocks.parallel(schedule, schedule.fuse(*outer), amount)


def _fits(schedule: Any, loop: Any, width: int) -> bool:
    size = blocks.extent(schedule, loop)
    return size is not None and width > 0 and size % width == 0


def _flat(schedule: Any, block: Any) -> bool:
    """Whether all it touches has the shape of the result: then its place in memory is one running number."""
    from tvm_ffi import structural_equal

    found = schedule.get(block)
    written = found.writes[0]
    return all(
        len(read.region) == len(written.region)
        and structural_equal(list(read.source.shape), list(written.source.shape))
        and all(structural_equal(a.min, b.min) for a, b in zip(read.region, written.region, strict=True))
        for read in found.reads
    )


def _reduce(schedule: Any, block: Any, lanes: int) -> None:
    """Threads over what is kept; vectors along the last kept axis where it is the last one in memory."""
    loops, kinds = schedule.get_loops(block), blocks.axes(schedule, block)
    kept = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == blocks.SPATIAL]
    reduced = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == blocks.REDUCED]
    amount = blocks.work(schedule, loops)
    width = next((one for one in (lanes, lanes // 2, lanes // 4) if one > 1 and _fits(schedule, kept[-1], one)), 0)
    if width and _contiguous(schedule, block, kept[-1], loops):
        outer, lane = schedule.split(kept[-1], [None, width])
        schedule.reorder(*kept[:-1], outer, *reduced, lane)
        blocks.vectorize(schedule, lane)
        kept[-1] = outer
        task = schedule.fuse(*kept)
        blocks.parallel(schedule, task, amount)
        start = schedule.decompose_reduction(block, reduced[0])
        blocks.vectorize(schedule, schedule.get_loops(start)[-1])
        return
    schedule.reorder(*kept, *reduced)
    blocks.parallel(schedule, schedule.fuse(*kept), amount)


def _contiguous(schedule: Any, block: Any, loop: Any, loops: list[Any]) -> bool:
    """Whether one step of ``loop`` is one step in memory, in all that is read and written."""
    found = schedule.get(block)
    axis = found.iter_vars[loops.index(loop)].var
    return all(_last_only(region.region, axis) for region in (*found.reads, *found.writes))


def _last_only(region: Any, axis: Any) -> bool:
    from tvm.sym import Analyzer

    *before, last = [part.min for part in region] or [0]
    if any(_uses(part, axis) for part in before):
        return False
    return not _uses(last, axis) or not _uses(Analyzer().simplify(last - axis), axis)


def _uses(expression: Any, axis: Any) -> bool:
    from tvm import tirx

    if isinstance(expression, int):
        return False
    return any(one.same_as(axis) for one in tirx.analysis.undefined_vars(expression, []))


def _inline(schedule: Any) -> None:
    """Inline element-wise steps into those that use them, unless something costly would be done again and again."""
    from tvm.s_tir import ScheduleError

    for block in blocks.blocks(schedule)[:-1]:
        if blocks.REDUCED in blocks.axes(schedule, block):
            continue
        users = schedule.get_consumers(block)
        sums = any(blocks.REDUCED in blocks.axes(schedule, user) for user in users)
        if not _calls(schedule, block) - (set() if sums else CHEAP) or (len(users) == 1 and not sums):
            try:
                schedule.compute_inline(block)
            except ScheduleError:
                continue


def _calls(schedule: Any, block: Any) -> set[str]:
    """The functions that a block calls; of a border, which is a condition, it is ``if_then_else``."""
    from tvm import ir
    from tvm_ffi import structural_walk

    calls: set[str] = set()

    def look(node: Any) -> None:
        calls.add(str(getattr(node.op, "name", "")).removeprefix("tirx."))

    structural_walk(schedule.get(block).body, (ir.Call, look))
    return calls

"""Products and convolutions: one tile in registers, summed in the innermost loops, finished while it is still there."""

from __future__ import annotations

from typing import Any

from convert.targets.tvm_schedule import blocks
from convert.targets.tvm_schedule.marks import PACK, PAD, SUM, gemm_of
from convert.targets.tvm_schedule.rules_plain import by_vectors
from convert.targets.tvm_schedule.tiles import GemmTile


def schedule_gemm(schedule: Any) -> dict[str, Any]:
    """Schedule a kernel whose sum is marked with a :class:`GemmTile`; returns the parameters."""
    total = schedule.get_sblock(SUM)
    tile = gemm_of(schedule.get(total))
    last = blocks.inline_tail(schedule, total)
    _prepare(schedule, tile.lanes)
    amount = blocks.work(schedule, schedule.get_loops(total))
    task, rows, reduced = _tiles(schedule, total, tile)
    blocks.parallel(schedule, task, amount)
    schedule.reverse_compute_at(last, task)
    schedule.set_scope(total, 0, "local")
    _sum(schedule, total, tile, rows, reduced)
    _finish(schedule, last, tile.lanes)
    return tile.plain()


def _prepare(schedule: Any, lanes: int) -> None:
    """What makes the operands ready runs first, whole; anything else before the sum is inlined."""
    for block in blocks.blocks(schedule):
        name = schedule.get(block).name_hint
        if name == SUM:
            return
        if name in (PAD, PACK):
            by_vectors(schedule, block, lanes)
        else:
            schedule.compute_inline(block)


def _tiles(schedule: Any, total: Any, tile: GemmTile) -> tuple[Any, list[Any], list[Any]]:
    """Cut the loops: the fused loop over tiles, the loops within a tile, and those of the sum."""
    loops = schedule.get_loops(total)
    spatial = blocks.axes(schedule, total).count(blocks.SPATIAL)
    *outer, wide, columns = loops[:spatial]
    reduced = list(loops[spatial:])
    block, vector, lane = schedule.split(columns, [None, tile.vectors, tile.lanes])
    step, row = schedule.split(wide, [None, tile.wide])
    rows = [row]
    if outer:
        more, upper = schedule.split(outer[-1], [None, tile.high])
        outer[-1], rows = more, [upper, row]
    # Tiles of the same columns follow one another: their weights stay in the cache.
    schedule.reorder(block, *outer, step, *reduced, *rows, vector, lane)
    return schedule.fuse(block, *outer, step), [*rows, vector, lane], reduced


def _sum(schedule: Any, total: Any, tile: GemmTile, inner: list[Any], reduced: list[Any]) -> None:
    blocks.vectorize(schedule, inner[-1])
    blocks.unroll(schedule, inner[:-1])
    first, innermost = reduced[0], reduced[-1]
    size = blocks.extent(schedule, innermost)
    if tile.unroll > 1 and size is not None and size % tile.unroll == 0:
        outside, inside = schedule.split(innermost, [None, tile.unroll])
        blocks.unroll(schedule, [inside])
        first = outside if len(reduced) == 1 else first
    start = schedule.decompose_reduction(total, first)
    loops = schedule.get_loops(start)
    blocks.vectorize(schedule, loops[-1])
    blocks.unroll(schedule, loops[-len(inner) : -1])


def _finish(schedule: Any, last: Any, lanes: int) -> None:
    """Write the tile, with all that was fused into it."""
    _, *rows, columns = schedule.get_loops(last)
    *groups, lane = blocks.split_vector(schedule, columns, lanes)
    blocks.vectorize(schedule, lane)
    blocks.unroll(schedule, [*rows, *groups])

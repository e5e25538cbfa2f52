"""Depthwise convolutions: vectors of channels; the padded rows of one task are made just before they are used."""

from __future__ import annotations

from typing import Any

from convert.targets.tvm_schedule import blocks
from convert.targets.tvm_schedule.marks import PAD, SUM, depthwise_of
from convert.targets.tvm_schedule.tiles import DepthwiseTile

#: Larger kernels are not unrolled whole: the code would no longer fit where it is decoded.
MOST_TAPS = 25


def schedule_depthwise(schedule: Any) -> dict[str, Any]:
    """Schedule a kernel whose sum is marked with a :class:`DepthwiseTile`; returns the parameters."""
    total = schedule.get_sblock(SUM)
    tile = depthwise_of(schedule.get(total))
    last = blocks.inline_tail(schedule, total)
    before = [one for one in blocks.blocks(schedule) if schedule.get(one).name_hint == PAD]
    amount = blocks.work(schedule, schedule.get_loops(total))
    task, at, taps, inner = _tiles(schedule, total, tile)
    blocks.parallel(schedule, task, amount)
    for border in before:
        schedule.compute_at(border, task)
        blocks.vectorize(schedule, blocks.split_vector(schedule, schedule.get_loops(border)[-1], tile.lanes)[-1])
    schedule.reverse_compute_at(last, at)
    schedule.set_scope(total, 0, "local")
    _sum(schedule, total, taps, inner)
    _finish(schedule, last, at, tile.lanes)
    return tile.plain()


def _tiles(schedule: Any, total: Any, tile: DepthwiseTile) -> tuple[Any, Any, list[Any], list[Any]]:
    """Cut the loops: the fused loop over tasks, the innermost loop around a tile, the taps, the loops of a tile."""
    batch, high, wide, channels, *taps = schedule.get_loops(total)
    groups, block, vector, lane = schedule.split(channels, [None, tile.blocks, tile.vectors, tile.lanes])
    upper, row = schedule.split(high, [None, tile.high])
    step, column = schedule.split(wide, [None, tile.wide])
    schedule.reorder(batch, upper, groups, row, block, step, *taps, column, vector, lane)
    return schedule.fuse(batch, upper, groups), step, taps, [column, vector, lane]


def _sum(schedule: Any, total: Any, taps: list[Any], inner: list[Any]) -> None:
    blocks.vectorize(schedule, inner[-1])
    blocks.unroll(schedule, inner[:-1])
    if (blocks.work(schedule, taps) or 0) <= MOST_TAPS:
        blocks.unroll(schedule, taps)
    start = schedule.decompose_reduction(total, taps[0])
    loops = schedule.get_loops(start)
    blocks.vectorize(schedule, loops[-1])
    blocks.unroll(schedule, loops[-len(inner) : -1])


def _finish(schedule: Any, last: Any, at: Any, lanes: int) -> None:
    del at
    *outer, columns = schedule.get_loops(last)
    *groups, lane = blocks.split_vector(schedule, columns, lanes)
    blocks.vectorize(schedule, lane)
    blocks.unroll(schedule, [*outer[4:], *groups])

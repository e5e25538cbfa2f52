"""Find what several threads would write at once, from the kernel itself: on a busy machine a run may not show it."""

from __future__ import annotations

from typing import Any

#: A loop that is given to the threads (tvm/tirx/stmt.h).
PARALLEL = 1


def shared_writes(kernel: Any) -> str:
    """The first write in a parallel loop that goes to the same place in every iteration; empty where there is none.

    Memory that belongs to one iteration is no such place. This sees whether an index depends on the loop, not whether
    no two iterations give the same one: that is left to the runs.
    """
    import tvm
    from tvm import s_tir, tirx
    from tvm_ffi import structural_walk

    # After these, indices are written in terms of loops, and memory is made where it is used.
    steps = [
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
    ]
    plain = tvm.transform.Sequential(steps)(tvm.IRModule({"main": kernel}))["main"]
    loops: list[Any] = []
    structural_walk(plain.body, (tirx.For, loops.append))
    return next((why for why in map(_shared, filter(_shares, loops)) if why), "")


def _shares(loop: Any) -> bool:
    """Whether more than one thread can have a part of the loop."""
    extent = getattr(loop.extent, "value", loop.extent)
    return int(loop.kind) == PARALLEL and not (isinstance(extent, int) and extent <= 1)


def _shared(loop: Any) -> str:
    from tvm import s_tir, tirx
    from tvm_ffi import structural_walk

    blocks: list[Any] = []
    stores: list[Any] = []
    structural_walk(
        loop.body,
        [(s_tir.SBlock, blocks.append), (tirx.BufferStore, stores.append)],
    )
    own = [buffer for block in blocks for buffer in block.alloc_buffers]
    for store in stores:
        mine = any(store.buffer.same_as(buffer) for buffer in own)
        used = [one for index in store.indices for one in tirx.analysis.undefined_vars(index, [])]
        if not mine and not any(one.same_as(loop.loop_var) for one in used):
            return f"every iteration of {loop.loop_var.name} writes to the same place of {store.buffer.name}"
    return ""

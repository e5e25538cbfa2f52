"""How a kernel says which rule is its own: annotations of the block that sums, kept through fusion."""

from __future__ import annotations

from typing import Any

from convert.targets.tvm_schedule.tiles import DepthwiseTile, GemmTile

RULE, TILE = "convert.rule", "convert.tile"
#: Blocks of the kernels made here, by name.
SUM, PAD, PACK = "convert_sum", "convert_pad", "convert_pack"


def marks(rule: str, tile: GemmTile | DepthwiseTile) -> dict[str, Any]:
    """Attributes of a ``te.compute``, which become annotations of its block."""
    return {RULE: rule, TILE: list(tile.plain().values())}


def rule_of(block: Any) -> str:
    """The rule of a block, empty where it has none."""
    return str(block.annotations.get(RULE, ""))


def gemm_of(block: Any) -> GemmTile:
    """The tile of a block that was marked with one."""
    return GemmTile(*(int(value) for value in block.annotations[TILE]))


def depthwise_of(block: Any) -> DepthwiseTile:
    """The tile of a block that was marked with one."""
    return DepthwiseTile(*(int(value) for value in block.annotations[TILE]))

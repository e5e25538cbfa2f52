"""Parameters of the rules, with defaults from the sizes and the registers; a tuner may choose others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from convert.targets.tvm_schedule.registers import Registers

#: More rows of one tile than this gain nothing and lengthen the code.
MOST_ROWS = 14
#: More vectors than this per row: the packed weights of one tile would leave the first cache.
MOST_VECTORS = 4
#: Fused multiply-adds are in flight for about this many at a time; smaller tiles wait for one another.
IN_FLIGHT = 8
#: Sizes that are known at run time only get a tile that wastes little on small ones.
ROWS_WHEN_UNKNOWN = 4


@dataclass(frozen=True)
class GemmTile:
    """The part of a product that is held in registers.

    Attributes:
        high, wide: rows, as a rectangle of the two axes before the last (height and width of an image).
        vectors: vectors of output channels per row.
        lanes: values in one vector.
        unroll: steps of the innermost sum that stand side by side in the code.
    """

    high: int
    wide: int
    vectors: int
    lanes: int
    unroll: int = 1

    @property
    def columns(self) -> int:
        """Output channels in one tile."""
        return self.vectors * self.lanes

    def plain(self) -> dict[str, int]:
        """As JSON."""
        return asdict(self)


@dataclass(frozen=True)
class DepthwiseTile:
    """The part of a depthwise convolution that one task computes, and what of it is held in registers.

    Attributes:
        high: rows of the output in one task; its padded input is made once for all of them.
        wide: columns of the output in registers.
        vectors: vectors of channels in registers.
        blocks: such groups of vectors in one task.
        lanes: values in one vector.
    """

    high: int
    wide: int
    vectors: int
    blocks: int
    lanes: int

    def plain(self) -> dict[str, int]:
        """As JSON."""
        return asdict(self)


def ceil_div(size: Any, step: int) -> Any:
    """``size / step``, rounded up; of sizes that may be expressions."""
    return -(-size // step) if isinstance(size, int) else (size + (step - 1)) // step


def gemm_tile(high: int | None, wide: int | None, columns: int | None, registers: Registers) -> GemmTile:
    """The tile that takes the fewest steps for ``high`` x ``wide`` rows of ``columns``; None for a size not known."""
    if wide is None or high is None:
        vectors = _vectors_beside(ROWS_WHEN_UNKNOWN, columns, registers)
        rows = (1, ROWS_WHEN_UNKNOWN) if wide is None else (ROWS_WHEN_UNKNOWN, 1)
        return GemmTile(*rows, vectors, registers.lanes)
    wanted = (high, wide, registers.lanes * MOST_VECTORS if columns is None else columns)
    return min(_candidates(*wanted, registers), key=lambda tile: (_cost(tile, *wanted), tile.high, -tile.wide))


def _vectors_beside(rows: int, columns: int | None, registers: Registers) -> int:
    room = (registers.count - 1) // (rows + 1)
    needed = room if columns is None else ceil_div(columns, registers.lanes)
    return int(max(1, min(room, needed, MOST_VECTORS)))


def _candidates(high: int, wide: int, columns: int, registers: Registers) -> Iterator[GemmTile]:
    needed = ceil_div(columns, registers.lanes)
    rows = range(1, MOST_ROWS + 1)
    for tall, broad, vectors in product(rows, rows, range(1, MOST_VECTORS + 1)):
        fits = tall * broad * vectors + vectors + 1 <= registers.count
        useful = tall <= high and broad <= wide and vectors <= needed and tall * broad <= MOST_ROWS
        if (fits and useful) or tall == broad == vectors == 1:
            yield GemmTile(tall, broad, vectors, registers.lanes)


def _cost(tile: GemmTile, high: int, wide: int, columns: int) -> float:
    """Steps in all: of the multiply-adds or of the loads, whichever takes longer, and some for the loop."""
    tiles = ceil_div(high, tile.high) * ceil_div(wide, tile.wide) * ceil_div(columns, tile.columns)
    sums, loads = tile.high * tile.wide * tile.vectors, tile.high * tile.wide + tile.vectors
    cost = float(tiles) * (max(sums, IN_FLIGHT / 2, 0.6 * loads) + 0.5)
    padded = high % tile.high or wide % tile.wide
    return cost * 1.1 if padded else cost


def depthwise_tile(high: int, wide: int, channels: int, registers: Registers) -> DepthwiseTile:
    """``channels`` are those of the padded output: a multiple of the lanes, or of half of them."""
    lanes = registers.lanes if channels % registers.lanes == 0 else registers.lanes // 2
    vectors = 2 if channels % (2 * lanes) == 0 else 1
    groups = channels // (vectors * lanes)
    most = max(1, 4 * registers.lanes // (vectors * lanes))
    return DepthwiseTile(
        high=_divisor(high, 4),
        wide=_divisor(wide, max(1, registers.count // (2 * vectors))),
        vectors=vectors,
        blocks=_divisor(groups, most),
        lanes=lanes,
    )


def _divisor(size: int, most: int) -> int:
    return max(one for one in range(1, most + 1) if size % one == 0)

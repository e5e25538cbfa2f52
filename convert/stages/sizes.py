"""Find sizes between minimum and maximum that the source takes: some models want a multiple of something."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from convert.cases import Plan, draw, odd_sizes
from convert.errors import StageError
from convert.records import Dim, InputSpec

_MOST_TRIED = 12


def accepted_odd_sizes(
    specs: Sequence[InputSpec], dims: Sequence[Dim], run: Callable[[Mapping[str, Any]], Any]
) -> tuple[dict[str, int], list[str]]:
    """A size per dimension that no export uses and that the source accepts, alone and together with the others'.

    Returns:
        The sizes, without the dimensions that have none, and a note for each of those.
    """
    opt = {dim.name: dim.opt for dim in dims}
    found: dict[str, int] = {}
    notes = []
    for dim in dims:
        tried = [size for size in odd_sizes(dim) if size not in (dim.min, dim.opt, dim.max)][:_MOST_TRIED]
        fits = (size for size in tried if _accepts(opt | found | {dim.name: size}, specs, run))
        alone = next((size for size in fits if _accepts(opt | {dim.name: size}, specs, run)), None)
        if alone is not None:
            found[dim.name] = alone
        elif tried:
            notes.append(
                f"the source takes none of the sizes {tried} of {dim.name}, so only {dim.min}, {dim.opt} and "
                f"{dim.max} are proven"
            )
    return found, notes


def _accepts(sizes: dict[str, int], specs: Sequence[InputSpec], run: Callable[[Mapping[str, Any]], Any]) -> bool:
    try:
        run(draw(Plan("odd", "draw", sizes, 7), specs, {}))
    except StageError:
        return False
    return True

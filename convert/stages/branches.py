"""Find inputs on which a source takes another branch, so that a branch which an exporter froze shows in a check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from convert.cases import Plan, Spread, draw
from convert.models.run import tensors_of
from convert.records import InputSpec, Kind
from convert.stages.reads import Reads, watch_reads
from convert.stages.running import Source

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
#: Mild values first, so that a branch is entered where numbers are still exact.
_SCALES = (1.0, 0.1, 10.0, 1e-3, 100.0, 1e3, 1e4, 1e6)
_MOST_FOUND = 4


def reads_of(source: Source, feeds: Mapping[str, Array]) -> Reads:
    """What the source reads into Python on ``feeds``; nothing for an ONNX graph and where it cannot be watched."""
    if source.loaded.kind is Kind.ONNX:
        return Reads()

    def call(tensors: Sequence[Any]) -> None:
        args, kwargs = source.plan.arrange(tensors)
        source.loaded.module(*args, **kwargs)

    try:
        return watch_reads(call, tensors_of(source.plan, feeds))
    except Exception as error:  # inputs that the source refuses, or a module that does not take to being watched
        print(f"[convert] the source could not be watched: {type(error).__name__}: {error}")
        return Reads()
    finally:
        source.updated |= set(source.state.restore())


def other_branches(
    source: Source, plan: Plan, specs: Sequence[InputSpec], spreads: dict[str, Spread]
) -> tuple[list[tuple[Plan, Feeds]], list[str]]:
    """Cases on which the source takes another branch than on the draws, and a note where it reads values at all.

    Args:
        source: the model.
        plan: sizes to search at; its own values are the branch that is known.
        specs: the inputs.
        spreads: what the draws of an input follow.
    """
    known = draw(plan, specs, spreads)
    reads = reads_of(source, known)
    if not reads.values:
        return [], []
    paths = [reads.path, reads_of(source, draw(Plan("", "", plan.dims, 1), specs, spreads)).path]
    found: list[tuple[Plan, Feeds]] = []
    tried = 0
    for feeds in _candidates(plan, specs, spreads):
        tried += 1
        path = reads_of(source, feeds).path
        # Without a path the source failed on these inputs.
        if path and path not in paths and _runs(source, feeds):
            paths.append(path)
            found.append((Plan(f"branch{len(found)}", "edge", plan.dims, 0), feeds))
            if len(found) == _MOST_FOUND:
                break
    return found, [_note(reads, len(found), tried)]


def _note(reads: Reads, found: int, tried: int) -> str:
    start = (
        f"forward reads values of its inputs into Python ({reads.names}), so that its control flow may depend on them"
    )
    if found:
        return f"{start}; {found} inputs that take another branch were found and are among the cases"
    return f"{start}; none of {tried} further inputs, of all signs and sizes, took another branch"


def _runs(source: Source, feeds: Feeds) -> bool:
    try:
        source.run(feeds)
    except Exception:  # it failed halfway along another branch
        return False
    return True


def _candidates(plan: Plan, specs: Sequence[InputSpec], spreads: dict[str, Spread]) -> Iterator[Feeds]:
    """Every input at once in each manner, then each alone with the others as they are."""
    base = draw(plan, specs, spreads)
    groups = [tuple(spec.name for spec in specs), *((spec.name,) for spec in specs if len(specs) > 1)]
    for names in groups:
        for scale in _SCALES:
            for sign in ("both", "positive", "negative", "zero"):
                yield base | {
                    spec.name: _bent(base[spec.name], spec, scale, sign) for spec in specs if spec.name in names
                }


def _bent(values: Array, spec: InputSpec, scale: float, sign: str) -> Array:
    if values.dtype.kind == "b":
        return np.full_like(values, {"positive": True, "negative": False, "zero": False}.get(sign, scale < 1))
    if values.dtype.kind in "iu":
        return _integers(values, spec, scale, sign)
    with np.errstate(over="ignore"):
        bent = {"positive": np.abs(values), "negative": -np.abs(values), "zero": values * 0}.get(sign, values) * scale
        bent = bent.astype(values.dtype)
    return np.nan_to_num(bent)


def _integers(values: Array, spec: InputSpec, scale: float, sign: str) -> Array:
    """Values at the ends, in the middle, and a share of the range that follows ``scale``."""
    low, high = spec.low or 0, 1 if spec.high is None else spec.high
    if sign == "positive":
        return np.full_like(values, high)
    if sign == "negative":
        return np.full_like(values, low)
    if sign == "zero":
        return np.full_like(values, low + int((high - low) * min(scale, 1.0) / 2))
    share = min(scale, 1.0)
    return np.asarray([low + int((int(item) - low) * share) for item in values.ravel()], values.dtype).reshape(
        values.shape
    )

"""Trying inputs on the source: does it run, and does what it gives follow them?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from convert.cases import Plan, draw
from convert.errors import ConvertError
from convert.models.guesses import BATCH
from convert.models.load import Loaded
from convert.models.run import plan_call, run_source
from convert.records import InputSpec

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
    Feeds = dict[str, Array]

_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Trial:
    """What came of trying ``specs``.

    Attributes:
        failure: why the source does not take them; empty if it does.
        follows: an axis of an output has the size of the batch.
        separate: a row of the batch gives alone what it gives among others.
        depends: other values give another output.
    """

    specs: tuple[InputSpec, ...]
    failure: str = ""
    follows: bool = False
    separate: bool = False
    depends: bool = False

    @property
    def convincing(self) -> bool:
        """Whether nothing speaks against these inputs."""
        return self.follows and self.separate and self.depends


def try_batches(loaded: Loaded, specs: Sequence[InputSpec]) -> Trial:
    """Run the source with batches of 2 and 3, and look at what it gives."""
    specs = tuple(specs)
    try:
        two, three = _feeds(specs, 2, seed=0), _feeds(specs, 3, seed=0)
        few, more = _run(loaded, two), _run(loaded, three)
        if any(spec.high is not None for spec in specs):
            _run(loaded, _feeds(specs, 2, seed=0, edge="highest"))
        other = _run(loaded, _feeds(specs, 2, seed=1))
    except ConvertError as error:
        return Trial(specs, failure=str(error))
    axes = {name: _batch_axis(few[name], more.get(name)) for name in few}
    found = {name: axis for name, axis in axes.items() if axis is not None}
    return Trial(
        specs,
        follows=bool(found),
        separate=bool(found) and _rows_are_separate(loaded, specs, three, more, found),
        depends=_moved(few, other),
    )


def try_one(loaded: Loaded, specs: Sequence[InputSpec]) -> Trial:
    """Run the source with a batch of 1 only, as a trace may want it."""
    specs = tuple(specs)
    try:
        first = _run(loaded, _feeds(specs, 1, seed=0))
        other = _run(loaded, _feeds(specs, 1, seed=1))
    except ConvertError as error:
        return Trial(specs, failure=str(error))
    return Trial(specs, depends=_moved(first, other))


def _run(loaded: Loaded, feeds: Feeds) -> dict[str, Array]:
    return dict(run_source(loaded, plan_call(loaded, tuple(feeds)), feeds))


def _feeds(specs: Sequence[InputSpec], batch: int, seed: int, edge: str = "") -> Feeds:
    return draw(Plan("probe", "draw", {BATCH: batch}, seed, edge), specs, {})


def _batch_axis(few: Array, more: Array | None) -> int | None:
    """The one axis that is 2 with a batch of 2 and 3 with one of 3."""
    if more is None or few.ndim != more.ndim:
        return None
    differ = [axis for axis in range(few.ndim) if few.shape[axis] != more.shape[axis]]
    return differ[0] if len(differ) == 1 and (few.shape[differ[0]], more.shape[differ[0]]) == (2, 3) else None


def _rows_are_separate(
    loaded: Loaded, specs: Sequence[InputSpec], feeds: Feeds, outputs: dict[str, Array], axes: dict[str, int]
) -> bool:
    """Run the last row alone: in a sequence taken for a batch, it would depend on those before it."""
    row = {
        spec.name: feeds[spec.name].take([-1], axis=spec.shape.index(BATCH)) for spec in specs if BATCH in spec.shape
    }
    try:
        alone = _run(loaded, feeds | row)
    except ConvertError:
        return False
    return all(_same(outputs[name].take([-1], axis=axis), alone.get(name)) for name, axis in axes.items())


def _moved(first: Feeds, second: Feeds) -> bool:
    import numpy as np

    return any(name not in second or not np.array_equal(first[name], second[name]) for name in first)


def _same(first: Array, second: Array | None) -> bool:
    import numpy as np

    if second is None or first.shape != second.shape:
        return False
    if first.dtype.kind not in "fc":
        return bool(np.array_equal(first, second))
    finite = first[np.isfinite(first)]
    scale = float(np.abs(finite).max()) if finite.size else 0.0
    return bool(np.allclose(first, second, rtol=0, atol=_TOLERANCE * scale, equal_nan=True))

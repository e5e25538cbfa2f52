"""Finding a model's inputs when nobody says them: shapes that its first layers suggest, run on the model itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from convert.models.combine import Combination, combinations
from convert.models.guesses import BATCH, Guess, guesses
from convert.models.layers import first_layers
from convert.models.load import Loaded
from convert.models.signature import tensors_wanted
from convert.models.trials import Trial, try_batches, try_one
from convert.records import InputSpec
from convert.specs import ASSUMED, format_input

_MOST_LAYERS = 12
_MOST_TRIALS = 400
_MOST_SECONDS = 60.0


@dataclass(frozen=True)
class Found:
    """Inputs that the model takes, and a sentence that says what was assumed and how to pin it."""

    specs: tuple[InputSpec, ...]
    note: str


class NothingFound(Exception):  # it is no error yet: whoever asked knows what else can be done
    """No inputs were found; the text says what was tried, as part of a sentence."""


@dataclass
class _Search:
    """What was tried so far: what ran without being convincing, and what failed."""

    loaded: Loaded
    names: tuple[str, ...]
    ran: list[tuple[Trial, Combination]] = field(default_factory=list)
    failed: list[Trial] = field(default_factory=list)

    def go(
        self, worth: Sequence[Combination], judge: Callable[[Loaded, Sequence[InputSpec]], Trial]
    ) -> tuple[Trial, Combination] | None:
        """Try one after another, for a limited time; gives the first that is convincing."""
        end = time.monotonic() + _MOST_SECONDS
        for combination in worth:
            trial = judge(self.loaded, _specs(self.names, combination))
            if trial.convincing:
                return trial, combination
            if trial.failure:
                self.failed.append(trial)
            else:
                self.ran.append((trial, combination))
            if time.monotonic() > end:
                break
        return None


def find_inputs(loaded: Loaded) -> Found:
    """Try inputs that the first layers suggest, with batches of 2 and 3, and take the first that the model takes.

    Best is one where an output has a row for each row of the batch, which depends on that row and on nothing else;
    then one where that is not so; then one that runs with a batch of 1 only, as some traces do. The model may have
    changed its own state meanwhile, so load it again before its outputs count.

    Raises:
        InputError: ``forward`` needs something that is no tensor.
        NothingFound: nothing that was tried can be taken.
    """
    names = tensors_wanted(loaded)
    if not names:
        raise NothingFound("every parameter of forward has a default, so nothing was tried")
    worth = list(islice(combinations(names, _pools(loaded)), _MOST_TRIALS))
    if not worth:
        raise NothingFound("no layer of the model tells what it takes, so nothing was tried")
    search = _Search(loaded, names)
    best = search.go(worth, try_batches)
    if best is not None:
        return _found(best, "ran with batches of 2 and 3")
    for trial, combination in search.ran:
        if trial.follows and (trial.separate or trial.depends):
            what = "rows of a batch affect one another" if trial.depends else "other values gave the same output"
            return _found((trial, combination), f"ran with batches of 2 and 3, though {what}")
    alone = _Search(loaded, names)
    alone.go([_with_batch_of_one(one) for one in worth], try_one)
    for trial, combination in alone.ran:
        if trial.depends:
            return _found((trial, combination), "ran with a batch of 1 only")
    raise NothingFound(_tried(search))


def as_options(specs: Sequence[InputSpec]) -> str:
    """The options that say ``specs``."""
    return " ".join(f"--input '{format_input(spec)}'" for spec in specs)


def _pools(loaded: Loaded) -> list[list[Guess]]:
    """The guesses of each of the first layers; of layers that suggest the same, only the first."""
    pools: dict[tuple[object, ...], list[Guess]] = {}
    for layer in first_layers(loaded.module):
        found = guesses(layer)
        pools.setdefault(tuple((one.dtype, one.shape, one.high) for one in found), found)
        if len(pools) == _MOST_LAYERS:
            break
    return list(pools.values())


def _with_batch_of_one(combination: Combination) -> Combination:
    return tuple(replace(one, shape=tuple(1 if size == BATCH else size for size in one.shape)) for one in combination)


def _specs(names: Sequence[str], combination: Combination) -> tuple[InputSpec, ...]:
    return tuple(
        InputSpec(name, one.dtype, one.shape, None if one.high is None else 0, one.high)
        for name, one in zip(names, combination, strict=True)
    )


def _found(best: tuple[Trial, Combination], how: str) -> Found:
    specs, combination = best[0].specs, best[1]
    origins = " and ".join(dict.fromkeys(one.origin for one in combination))
    note = (
        f"{ASSUMED} {_shown(specs)} from {origins}, which {how}; pin that with {as_options(specs)} "
        "(a word in place of a size makes it dynamic)"
    )
    return Found(specs, note)


def _shown(specs: Sequence[InputSpec]) -> str:
    return ", ".join(map(format_input, specs))


def _tried(search: _Search) -> str:
    """What was tried, with the first failure and the last."""
    total = f"tried {len(search.failed) + len(search.ran)} shapes that its layers suggest"
    if search.ran:
        return f"{total}; {_shown(search.ran[0][0].specs)} ran, but no output has a row for each row of the batch"
    first, last = search.failed[0], search.failed[-1]
    also = "" if first is last else f", and last {_shown(last.specs)}: {last.failure}"
    return f"{total}, first {_shown(first.specs)}: {first.failure}{also}"

"""What to try for several inputs together: every combination of guesses worth a run, likeliest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product

from convert.models.guesses import BATCH, Guess

type Combination = tuple[Guess, ...]

_MASK_WORDS = ("mask", "keep", "valid", "pad")
_MIXED_LAYERS = 4
_MIXED_TURNS = 3
_MOST_MIXTURES = 64
_MOST_PRODUCTS = 5000


def combinations(names: Sequence[str], pools: Sequence[Sequence[Guess]]) -> Iterator[Combination]:
    """A guess for each name, each combination once.

    Args:
        names: the inputs; what is called a mask gets the sizes of the first other input, but for its features.
        pools: the guesses of each of the first layers, likeliest first.
    """
    if len(names) == 1:
        yield from ((one,) for pool in pools for one in pool)
        return
    seen = set()
    for combination in _together(names, pools):
        key = tuple((one.dtype, one.shape, one.high) for one in combination)
        if key not in seen:
            seen.add(key)
            yield combination


def _together(names: Sequence[str], pools: Sequence[Sequence[Guess]]) -> Iterator[Combination]:
    """Sizes change together, since inputs that belong together share them."""
    masked = [any(word in name.lower() for word in _MASK_WORDS) for name in names]
    count = masked.count(False) or 1  # a mask without anything else is what the layers say
    for turn in range(max(map(len, pools), default=0)):
        now = [pool[turn] for pool in pools if turn < len(pool)]
        for way in _ways(now, count, mixed=turn < _MIXED_TURNS):
            if all(masked):
                yield (way[0],) * len(names)
                continue
            for mask in _masks(way[0]) if any(masked) else [way[0]]:
                rest = iter(way)
                yield tuple(mask if is_mask else next(rest) for is_mask in masked)


def _ways(now: Sequence[Guess], count: int, mixed: bool) -> Iterator[Combination]:
    """Each input from a layer of its own; all from one layer; then mixtures, also with one number per row."""
    if len(now) >= count:
        yield tuple(now[:count])
    yield from ((one,) * count for one in now)
    if mixed and now:
        choices = now[:_MIXED_LAYERS]
        floating = next((one.dtype for one in choices if one.high is None), "float32")
        single = [replace(one, shape=(BATCH,)) for one in choices if one.high is not None]
        single.append(Guess("one number per row", floating, (BATCH,)))
        mixtures = list(islice(product([*choices, *single], repeat=count), _MOST_PRODUCTS))
        # Two inputs from one layer would do for two tables of ids, but with the range of one of them.
        mixtures.sort(key=lambda way: -len({one.origin for one in way}))
        yield from mixtures[:_MOST_MIXTURES]


def _masks(guess: Guess) -> list[Guess]:
    shape = guess.shape if guess.high is not None else guess.shape[:2]
    return [Guess("a mask", "int64", shape, 1), Guess("a mask", "bool", shape), Guess("a mask", "float32", shape)]

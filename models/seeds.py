"""Weights that a factory draws: the same ones in every worker, and a word about it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from convert.errors import InputError
from convert.models import factory
from convert.records import Kind, ModelRef

if TYPE_CHECKING:
    from convert.models.load import Loaded

SEED = 0
"""Every factory is called under this seed."""

#: A factory that takes longer than this is not called again only to find out whether its weights are random.
_MOST_SECONDS = 3.0


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the generators of torch, numpy and Python, and give them back their state afterwards."""
    import numpy as np
    import torch

    python, numbers = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numbers)


def random_weights(ref: ModelRef, loaded: Loaded) -> tuple[str, ...]:
    """A note where a factory gives other weights under another seed, so that they come from no file.

    Args:
        ref: what was asked for; nothing is said of what is no factory.
        loaded: what its factory gave under :data:`SEED`.

    Raises:
        InputError: it gives other weights under the same seed, so that no two workers would see one model.
    """
    if ref.kind is not Kind.FACTORY or ref.factory is None or loaded.upcast:
        return ()
    start = time.monotonic()
    first = _weights(ref.path, ref.factory, SEED)
    if first is None:
        return ()
    if _moved([item.detach() for item in loaded.module.parameters()], first):
        raise InputError(
            f"{ref.factory} of {ref.path} gives other weights each time it is called, although torch, numpy and random "
            "are seeded; seed its own generator, or load the weights from a file"
        )
    if time.monotonic() - start > _MOST_SECONDS:
        return ()
    second = _weights(ref.path, ref.factory, SEED + 1)
    moved = 0 if second is None else _moved(first, second)
    if not moved:
        return ()
    return (f"the factory gives random weights ({moved} of {len(first)} tensors); seeded with {SEED}",)


def _weights(where: str, name: str, seed: int) -> list[Any] | None:
    """The weights of one more call; None where the factory does not work twice."""
    try:
        with seeded(seed):
            return [item.detach() for item in factory.call(where, name).parameters()]
    except InputError:
        return None


def _moved(ones: list[Any], others: list[Any]) -> int:
    """How many of the weights differ; those that only one list has differ, too."""
    import torch

    same = (one.shape == other.shape and torch.equal(one, other) for one, other in zip(ones, others, strict=False))
    return max(len(ones), len(others)) - sum(map(bool, same))

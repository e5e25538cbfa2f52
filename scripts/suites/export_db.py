"""The examples of ``torch.export``'s database: one feature of Python or torch each. Runs in a child of the core."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from suites.live import prepare_live, wrap


@cache
def _examples() -> dict[str, Any]:
    # The modules are made on import, and every phase of an item must see the same weights.
    torch.manual_seed(20)
    from torch._export.db.examples import all_examples

    return dict(all_examples())


def items() -> list[str]:
    """The names of all examples."""
    return sorted(_examples())


def make(item: str) -> tuple[Any, tuple[Any, ...]]:
    """The module of ``item``, and the tensors that it is called with."""
    example = _examples()[item]
    return wrap(example.model, tuple(example.example_args), dict(example.example_kwargs))


def prepare(item: str, folder: str, target: str, route: str) -> None:
    """See :func:`suites.live.prepare_live`."""
    del target, route
    prepare_live("export_db", item, folder, make(item)[1])

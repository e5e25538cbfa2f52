"""A table of small models whose meaning converters lose, with what has to become of each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

PASSED = "passed"


@dataclass(frozen=True)
class Semantic:
    """One model.

    Attributes:
        name: of the factory in its file.
        file: that file.
        inputs, dims: as on the command line.
        expect: ``passed``, or a part of the sentence that says why not.
        feeds: further inputs, by name, that an artifact which passed must be right on.
        slow: another model of the table tests nearly the same.
    """

    name: str
    file: str
    inputs: tuple[str, ...]
    dims: tuple[str, ...]
    expect: str
    feeds: tuple[Mapping[str, Any], ...] = ()
    slow: bool = False


TABLE: dict[str, Semantic] = {}


class Apply(nn.Module):
    """A module that does what a function does."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def semantic(
    *inputs: str,
    dims: Sequence[str] = (),
    expect: str = PASSED,
    feeds: Sequence[Mapping[str, Any]] = (),
    slow: bool = False,
) -> Callable[[Any], Callable[[], nn.Module]]:
    """Enter a function of tensors, or a class of module, into the table and turn it into a factory."""

    def decorate(thing: Any) -> Callable[[], nn.Module]:
        make = thing if isinstance(thing, type) else lambda: Apply(thing)
        return enter(thing.__name__, make, thing.__module__, *inputs, dims=dims, expect=expect, feeds=feeds, slow=slow)

    return decorate


def enter(
    name: str,
    make: Callable[[], nn.Module],
    module: str,
    *inputs: str,
    dims: Sequence[str] = (),
    expect: str = PASSED,
    feeds: Sequence[Mapping[str, Any]] = (),
    slow: bool = False,
) -> Callable[[], nn.Module]:
    """Enter what ``make`` gives into the table; returns the factory, to be called ``name`` in ``module``."""
    TABLE[name] = Semantic(name, str(sys.modules[module].__file__), inputs, tuple(dims), expect, tuple(feeds), slow)

    def factory() -> nn.Module:
        torch.manual_seed(0)
        return make()

    return factory

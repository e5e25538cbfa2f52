"""torch's own list of modules with inputs for each (``module_db``). Runs in a child process of the core."""

from __future__ import annotations

import sys
import types
import unittest
import zlib
from functools import cache
from typing import Any

import torch

from suites.live import prepare_live, wrap


@cache
def _modules() -> dict[str, Any]:
    if "expecttest" not in sys.modules:
        # The list lies beside torch's test classes, which derive from this package's; the list itself needs none of it.
        base = types.ModuleType("expecttest")
        base.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = base
    from torch.testing._internal.common_modules import module_db

    return {info.formatted_name: info for info in module_db}


def _inputs(name: str) -> list[Any]:
    """The ways to make and call one module; the same values each time."""
    info = _modules()[name]
    torch.manual_seed(zlib.crc32(name.encode()))
    return list(info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=False))


def items() -> list[str]:
    """Every module with every input: ``nn_Conv2d/3``."""
    return [f"{name}/{index}" for name in sorted(_modules()) for index in range(len(_inputs(name)))]


def make(item: str) -> tuple[Any, tuple[Any, ...]]:
    """The module of ``item`` in evaluation mode, and the tensors that it is called with."""
    name, _, index = item.rpartition("/")
    given = _inputs(name)[int(index)]
    torch.manual_seed(zlib.crc32(item.encode()))
    module = _modules()[name].module_cls(*given.constructor_input.args, **given.constructor_input.kwargs).eval()
    args, kwargs = tuple(given.forward_input.args), dict(given.forward_input.kwargs)
    if _modules()[name].is_lazy:
        module(*args, **kwargs)  # gives it its weights
    return wrap(module, args, kwargs)


def prepare(item: str, folder: str, target: str, route: str) -> None:
    """See :func:`suites.live.prepare_live`."""
    del target, route
    prepare_live("torch_modules", item, folder, make(item)[1])

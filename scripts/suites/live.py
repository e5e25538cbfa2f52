"""Prepare one live module with the arguments that a suite gives it. Runs in a child process of the core.

The module is wrapped so that it takes tensors only: whatever else stands among the arguments is fixed.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch

from convert.errors import StageError
from convert.models.load import load
from convert.models.run import plan_call, run_source
from convert.records import InputSpec, Kind, ModelRef
from convert.serial import write_json
from suites.case import write_golden

_FACTORY = """import sys

sys.path.append({scripts!r})
from suites.{suite} import make


def item():
    return make({item!r})[0]
"""


class OnlyTensors(torch.nn.Module):
    """Calls a module with tensors at their places among arguments that are otherwise fixed."""

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Take the places of the tensors from ``args`` and ``kwargs``."""
        super().__init__()
        self.module = module
        leaves, self._spec = torch.utils._pytree.tree_flatten((args, kwargs))
        self._rest = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self._places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.given = tuple(leaves[place].detach() for place in self._places)

    def forward(self, *tensors: Any) -> Any:
        """Call the module; ``tensors`` in the order in which they stand among its arguments."""
        leaves = list(self._rest)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = torch.utils._pytree.tree_unflatten(leaves, self._spec)
        return self.module(*args, **kwargs)


def wrap(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """The module that takes tensors only, and the tensors that the suite gives it."""
    wrapped = OnlyTensors(module, args, kwargs)
    given, wrapped.given = wrapped.given, ()
    return wrapped.eval(), given


def prepare_live(suite: str, item: str, folder: str, tensors: tuple[Any, ...]) -> None:
    """Run the source on ``tensors`` and write golden data.

    Args:
        suite: module of this package whose ``make(item)`` gives the live module.
        item: which.
        folder: of the item.
        tensors: what the suite calls the module with.

    Raises:
        InputError, StageError: the project does not take the module.
    """
    place = Path(folder)
    feeds = {f"x{index}": _array(tensor) for index, tensor in enumerate(tensors)}
    if not feeds:
        raise StageError("the module takes no tensor")
    factory = place / "item.py"
    scripts = str(Path(__file__).resolve().parent.parent)
    factory.write_text(_FACTORY.format(scripts=scripts, suite=suite, item=item), encoding="utf-8")
    ref = ModelRef(str(factory), Kind.FACTORY, "item")
    write_json(place / "ref.json", ref)
    loaded = load(ref)
    plan = plan_call(loaded, tuple(feeds))
    outputs, again = (dict(run_source(loaded, plan, feeds)) for _ in range(2))
    for name, value in outputs.items():
        if not np.array_equal(value, again[name], equal_nan=value.dtype.kind in "fc"):
            raise StageError(f"the source gives another {name} each time")
    specs = [_spec(name, value) for name, value in feeds.items()]
    write_golden(place, item, Kind.FACTORY, specs, [(feeds, outputs)], _truth(loaded, plan, feeds))


def _array(tensor: Any) -> Any:
    if tensor.dtype not in (torch.float32, torch.int64, torch.int32, torch.bool, torch.uint8):
        raise StageError(f"an input is {tensor.dtype}")
    return copy.deepcopy(tensor).contiguous().numpy()


def _spec(name: str, value: Any) -> InputSpec:
    integer = value.dtype.kind in "iu" and value.size
    bounds = (int(value.min()), int(value.max())) if integer else (None, None)
    return InputSpec(name, str(value.dtype), value.shape, *bounds)


def _truth(loaded: Any, plan: Any, feeds: dict[str, Any]) -> dict[str, Any] | None:
    try:
        return dict(run_source(loaded, plan, feeds, "float64"))
    except StageError:
        return None

"""Running a loaded model: from arrays by name to flat outputs by name, in its own precision or another."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from convert.errors import InputError, StageError
from convert.models.factory import one_line
from convert.models.flatten import flatten, name_outputs
from convert.models.load import Loaded
from convert.records import Kind

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_CASTS = ("float16", "float32", "float64")


type Arrange = Callable[[Sequence[Any]], tuple[tuple[Any, ...], dict[str, Any]]]


@dataclass(frozen=True)
class CallPlan:
    """How the named inputs reach ``forward``.

    Attributes:
        inputs: names, in the order in which tensors are given.
        arrange: turns the tensors, in that order, into positional and keyword arguments.
        notes: what is worth knowing.
    """

    inputs: tuple[str, ...]
    arrange: Arrange
    notes: tuple[str, ...] = ()


def plan_call(loaded: Loaded, input_names: Sequence[str]) -> CallPlan:
    """Map input names to the parameters of ``forward``: by keyword if it knows all of them, else by position.

    Parameters that ``loaded.constants`` fixes get their values; positions go past them.

    Raises:
        InputError: an exported program or ONNX file has other inputs, ``forward`` takes fewer than there are, or a
            constant is none of its parameters.
    """
    names = tuple(input_names)
    if len(set(names)) < len(names):
        raise InputError(f"the inputs {', '.join(names)} have a name twice; give each its own")
    known = loaded.parameter_names
    if loaded.inputs is not None and set(names) != set(known):
        raise InputError(f"the model's inputs are {', '.join(known)}, not {', '.join(names)}; use these names")
    constants = loaded.constants
    _require_constants(loaded, names)
    if loaded.exported is not None:
        return CallPlan(names, _by_program(loaded.exported, names))
    order = known if loaded.script else ()
    if known and all(name in known for name in names):
        return CallPlan(names, _by_keyword(names, constants, order))
    free = tuple(name for name in known if name not in constants)
    if known and len(names) > len(free):
        raise InputError(f"forward takes {len(free)} inputs ({', '.join(free)}), not {len(names)}; give as many")
    note = f"inputs {', '.join(names)} given to forward by position" + (f" ({', '.join(free)})" if free else "")
    if free and constants:
        return CallPlan(names, _by_keyword(free[: len(names)], constants, order), (note,))
    return CallPlan(names, lambda tensors: (tuple(tensors), dict(constants)), (note,))


def _require_constants(loaded: Loaded, names: tuple[str, ...]) -> None:
    known = loaded.parameter_names
    for name in loaded.constants:
        if loaded.inputs is not None:
            raise InputError(
                f"--constant {name} has no use here: the file fixed all but the inputs {', '.join(known)} when it was "
                "written; leave it out"
            )
        if name in names:
            raise InputError(f"{name} is an input and a --constant; leave one of them out")
        if name not in known and not _takes_any_keyword(loaded):
            raise InputError(
                f"--constant {name} names no parameter of forward; it has {', '.join(known) or 'none with a name'}"
            )


def _takes_any_keyword(loaded: Loaded) -> bool:
    if loaded.script:
        return False
    return any(item.kind is item.VAR_KEYWORD for item in inspect.signature(loaded.module.forward).parameters.values())


def _by_keyword(names: tuple[str, ...], constants: Mapping[str, Any], order: tuple[str, ...]) -> Arrange:
    """Give tensors by keyword; those that lead ``order`` by position, since torch.export calls TorchScript so only."""
    there = {*names, *constants}
    leading = [name for at, name in enumerate(order) if set(order[: at + 1]) <= there]

    def arrange(tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = {**constants, **dict(zip(names, tensors, strict=True))}
        return tuple(given.pop(name) for name in leading), given

    return arrange


def _by_program(program: Any, names: tuple[str, ...]) -> Arrange:
    """Fill the program's own nest of arguments: tensors by name, everything else as it was exported."""
    import torch

    spec = program.module_call_graph[0].signature.in_spec
    slots = [item.arg for item in program.graph_signature.input_specs if item.kind.name == "USER_INPUT"]

    def arrange(tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = dict(zip(names, tensors, strict=True))
        leaves = [given[slot.name] if slot.name in given else getattr(slot, "value", None) for slot in slots]
        args, kwargs = torch.utils._pytree.tree_unflatten(leaves, spec)
        return args, kwargs

    return arrange


def run_source(
    loaded: Loaded, plan: CallPlan, feeds: Mapping[str, Array], dtype: str | None = None
) -> list[tuple[str, Array]]:
    """Run the model once and return its outputs by name, as fresh arrays.

    Args:
        loaded: the model.
        plan: how its inputs reach it.
        feeds: an array for every input of ``plan``; they are not changed.
        dtype: None for the model as it is; ``float64`` or ``float16`` for a copy of it in that type, with floating
            inputs turned into it.

    Raises:
        StageError: the model failed, returned something else than tensors, or (with ``dtype``) a floating output of
            another type, since a type is fixed in its code.
    """
    if loaded.kind is Kind.ONNX:
        return _run_onnx(loaded, plan, feeds, dtype)
    import torch

    module = loaded.module if dtype is None else _copy_in(loaded, dtype)
    tensors = [_tensor(feeds[name], dtype) for name in plan.inputs]
    args, kwargs = plan.arrange(tensors)
    try:
        with torch.inference_mode():
            value = module(*args, **kwargs)
    except Exception as error:
        what = "the model" if dtype is None else f"the model in {dtype}"
        raise StageError(f"{what} failed on inputs {_shapes(feeds)}: {one_line(error)}") from error
    named = flatten(value)
    names = name_outputs([name for name, _ in named], plan.inputs)
    results = [(name, _array(name, item)) for name, (_, item) in zip(names, named, strict=True)]
    _require_dtype(results, dtype)
    return results


def tensors_of(plan: CallPlan, feeds: Mapping[str, Array]) -> list[Any]:
    """Fresh torch tensors for the inputs of ``plan``, in order."""
    return [_tensor(feeds[name], None) for name in plan.inputs]


def _copy_in(loaded: Loaded, dtype: str) -> Any:
    import torch

    if dtype not in _CASTS:
        raise ValueError(f"dtype is {dtype!r}; it must be one of {', '.join(_CASTS)}")
    if dtype not in loaded.cache:
        try:
            loaded.cache[dtype] = copy.deepcopy(loaded.module).to(getattr(torch, dtype))
        except Exception as error:
            raise StageError(f"the model cannot be turned into {dtype}: {one_line(error)}") from error
    return loaded.cache[dtype]


def _tensor(array: Array, dtype: str | None) -> Any:
    import numpy as np
    import torch

    # A copy, since a model may write into its inputs.
    tensor = torch.from_numpy(np.array(array, copy=True, order="C"))
    return tensor.to(getattr(torch, dtype)) if dtype is not None and tensor.is_floating_point() else tensor


def _array(name: str, tensor: Any) -> Array:
    import torch

    if tensor.is_quantized or tensor.layout != torch.strided:
        raise StageError(f"the model's output {name} is not a dense tensor", "return dense tensors")
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.to(torch.float32)
    # A copy, since a model may return its input, a weight, or one memory twice.
    result: Array = tensor.detach().resolve_conj().resolve_neg().cpu().numpy().copy()
    return result


def _run_onnx(loaded: Loaded, plan: CallPlan, feeds: Mapping[str, Array], dtype: str | None) -> list[tuple[str, Array]]:
    import numpy as np

    if dtype is not None:
        raise StageError(f"an ONNX file cannot be run in {dtype}: its types are fixed")
    try:
        found = loaded.module({name: feeds[name] for name in plan.inputs})
    except Exception as error:
        raise StageError(f"the model failed on inputs {_shapes(feeds)}: {one_line(error)}") from error
    for name, value in found.items():
        if not isinstance(value, np.ndarray):
            raise StageError(f"the model's output {name} is a {type(value).__name__} and no tensor")
    names = name_outputs(list(found), plan.inputs)
    return [(name, np.array(value, copy=True)) for name, value in zip(names, found.values(), strict=True)]


def _require_dtype(results: list[tuple[str, Array]], dtype: str | None) -> None:
    for name, array in results:
        if dtype is not None and array.dtype.kind == "f" and array.dtype.name != dtype:
            raise StageError(f"output {name} of the model in {dtype} is {array.dtype}: a type is fixed in its code")


def _shapes(feeds: Mapping[str, Array]) -> str:
    return ", ".join(f"{name}={array.dtype}{list(array.shape)}" for name, array in feeds.items())

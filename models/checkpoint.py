"""Weights from a checkpoint into a module: find the state dict, undo wrappers' prefixes, say what does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from convert.errors import InputError

_KEYS = (
    "state_dict",
    "model_state_dict",
    "model",
    "ema_state_dict",
    "ema",
    "model_ema",
    "params_ema",
    "params",
    "net",
    "network",
    "module",
    "weights",
)
_PREFIXES = ("module.", "_orig_mod.", "model.", "net.")
_MOST_WRAPPERS = 3
_DEEPEST = 4


def unpack(value: Any, path: str) -> tuple[dict[str, Any], list[str]]:
    """The state dict inside a loaded checkpoint, and notes on where it was found.

    Raises:
        InputError: there is no mapping of names to tensors in it.
    """
    taken: list[str] = []
    for _ in range(_DEEPEST):
        value = _state_dict_of(value)
        if not isinstance(value, Mapping):
            break
        tensors = {str(key): item for key, item in value.items() if _is_tensor(item)}
        key = next((key for key in _KEYS if isinstance(value.get(key), Mapping) or _has_state(value.get(key))), None)
        if tensors and key is None:
            # get_extra_state() of a module may be anything.
            extra = {str(key): item for key, item in value.items() if str(key).endswith("_extra_state")}
            return tensors | extra, _notes(taken, value)
        if key is None:
            break
        also = [other for other in _KEYS if other != key and isinstance(value.get(other), Mapping)]
        taken.append(f"{key} (also there: {_list(also)})" if also else key)
        value = value[key]
    raise InputError(f"{path} has no weights by name ({_describe(value)}); save model.state_dict() with torch.save")


def fill(module: Any, weights: dict[str, Any], path: str) -> list[str]:
    """Load ``weights`` into ``module``, after taking off wrappers' prefixes where that makes names match.

    Returns:
        Notes on what had to be changed.

    Raises:
        InputError: names up to three keys that are missing, unexpected or of another shape.
    """
    own = module.state_dict()
    weights, notes = strip_prefixes(weights, set(own))
    shapes = [_misfit(key, own[key], weights[key]) for key in own if key in weights and _is_tensor(own[key])]
    wrong = [text for text in shapes if text]
    if wrong:
        raise InputError(f"{path} does not fit {_class_of(module)}: {_list(wrong)}; check --model and its settings")
    notes += _cast_notes(own, weights)
    try:
        result = module.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        raise InputError(f"{path} does not fit {_class_of(module)}: {str(error).splitlines()[-1].strip()}") from error
    tied = _tied(own, weights, result.missing_keys)
    notes += [f"{key} not in the file, but tied to {other}, which is" for key, other in tied.items()]
    problems = [f"{kind} {_list(keys)}" for kind, keys in _differences(result, tied) if keys]
    if problems:
        raise InputError(
            f"{path} does not fit {_class_of(module)}: {'; '.join(problems)}; check --model and its settings"
        )
    return notes


def strip_prefixes(weights: dict[str, Any], wanted: set[str]) -> tuple[dict[str, Any], list[str]]:
    """Take off the prefixes that DataParallel, torch.compile and trainers add, if more of ``wanted`` match so."""
    best, notes = weights, list[str]()
    for count in range(1, _MOST_WRAPPERS + 1):
        for prefixes in product(_PREFIXES, repeat=count):
            shorter, changes = _strip(weights, prefixes)
            if len(shorter) == len(weights) and len(wanted & shorter.keys()) > len(wanted & best.keys()):
                best, notes = shorter, changes
    return best, notes


def _strip(weights: dict[str, Any], prefixes: tuple[str, ...]) -> tuple[dict[str, Any], list[str]]:
    """Take off these prefixes one after another; two names that become one make the result shorter."""
    notes = []
    for prefix in prefixes:
        shorter = {_without(key, prefix): item for key, item in weights.items()}
        notes.append(f"prefix {prefix} stripped from {len(weights.keys() - shorter.keys())} keys")
        weights = shorter
    return weights, notes


def _without(key: str, prefix: str) -> str:
    # torch.compile of a submodule puts its prefix in the middle of names.
    return key.replace(prefix, "") if prefix == "_orig_mod." else key.removeprefix(prefix)


def _state_dict_of(value: Any) -> Any:
    return value.state_dict() if _has_state(value) else value


def _has_state(value: Any) -> bool:
    return callable(getattr(value, "state_dict", None))


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _notes(taken: list[str], value: Mapping[Any, Any]) -> list[str]:
    notes = [f"weights taken from the checkpoint's key {'.'.join(taken)}"] if taken else []
    left = [str(key) for key, item in value.items() if not _is_tensor(item) and not str(key).endswith("_extra_state")]
    return notes + ([f"keys without tensors ignored: {_list(left)}"] if left else [])


def _describe(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"its keys are {_list([str(key) for key in value]) or 'none'}"
    return f"it holds a {type(value).__name__}"


def _misfit(key: str, own: Any, given: Any) -> str:
    if not _is_tensor(given):
        return f"{key} is a {type(given).__name__} and no tensor"
    if tuple(own.shape) != tuple(given.shape):
        return f"{key} is {list(given.shape)} in the file and {list(own.shape)} in the module"
    if _family(own) != _family(given):
        return f"{key} is {_dtype(given)} in the file and {_dtype(own)} in the module"
    return ""


def _family(tensor: Any) -> str:
    if tensor.is_quantized:
        return "quantized"
    if tensor.is_complex():
        return "complex"
    return "floating" if tensor.is_floating_point() else "integer"


def _cast_notes(own: dict[str, Any], weights: dict[str, Any]) -> list[str]:
    casts: dict[str, int] = {}
    for key, tensor in own.items():
        if key in weights and _is_tensor(tensor) and tensor.dtype != weights[key].dtype:
            text = f"{_dtype(weights[key])} weights loaded into {_dtype(tensor)}"
            casts[text] = casts.get(text, 0) + 1
    return [f"{text} ({count} tensors)" for text, count in casts.items()]


def _tied(own: dict[str, Any], weights: dict[str, Any], missing: list[str]) -> dict[str, str]:
    """Missing names whose tensor is the very one that another name fills: safetensors writes such tensors once."""
    places = {_place(own[key]): key for key in weights if key in own and _is_tensor(own[key]) and own[key].numel()}
    found = {key: places.get(_place(own[key])) for key in missing if _is_tensor(own.get(key))}
    return {key: other for key, other in found.items() if other is not None}


def _place(tensor: Any) -> tuple[Any, ...]:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _differences(result: Any, tied: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    return [
        ("missing in the file:", [key for key in result.missing_keys if key not in tied]),
        ("unexpected in the file:", list(result.unexpected_keys)),
    ]


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _class_of(module: Any) -> str:
    return type(module).__name__


def _list(items: list[str]) -> str:
    return ", ".join(items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")

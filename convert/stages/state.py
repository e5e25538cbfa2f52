"""What a module keeps between two calls: noticed when ``forward`` changes it, and given back afterwards.

The golden outputs are those of the freshly loaded model, so no run may leave its mark on the next one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

#: How deep lists and dicts in a module's attributes are looked into.
_DEPTH = 4


@dataclass(frozen=True)
class _Place:
    """One piece of state: how people call it, where it lies, the object that lay there and a copy of its content."""

    label: str
    owner: Any
    key: str
    buffer: bool
    original: Any
    copy: Any
    mark: Any


class State:
    """The state of one module as it was when this was made.

    Buffers and plain attributes (tensors, numbers, lists and dicts of them) are copied. Parameters are too large for
    that, so a change of one is noticed but cannot be undone. State anywhere else is not seen.
    """

    def __init__(self, module: Any) -> None:
        """Remember the state of ``module``; one that is no ``torch.nn.Module`` (an ONNX graph) has none."""
        import torch

        self._module = module if isinstance(module, torch.nn.Module) else None
        self._places = [] if self._module is None else list(_places(self._module))
        self._parameters = self._mark_parameters()

    def changed(self) -> tuple[str, ...]:
        """What ``forward`` has changed since, such as ``buffer cache.keys`` or ``attribute steps``."""
        return tuple(place.label for place in self._places if _mark(_value(place)) != place.mark)

    def changed_parameters(self) -> tuple[str, ...]:
        """Names of the parameters that have changed since."""
        return tuple(name for name, mark in self._mark_parameters().items() if mark != self._parameters.get(name))

    def restore(self) -> tuple[str, ...]:
        """Give buffers and attributes back their content; returns what had changed."""
        changed = self.changed()
        for place in self._places:
            if place.label in changed:
                _give_back(place)
        return changed

    def _mark_parameters(self) -> dict[str, Any]:
        return {} if self._module is None else {name: _bytes(item) for name, item in self._module.named_parameters()}


def _places(module: Any) -> Iterator[_Place]:
    import torch

    seen: set[int] = set()
    usual = set(vars(torch.nn.Module())) | {"_flat_weights", "_flat_weight_refs", "_all_weights"}
    for path, owner in module.named_modules():
        prefix = f"{path}." if path else ""
        for key, value in _buffers(owner):
            if value is None or id(value) not in seen:
                seen.add(id(value))
                yield _place(f"buffer {prefix}{key}", owner, key, True, value)
        if not isinstance(owner, torch.jit.ScriptModule | torch.fx.GraphModule):
            for key, value in list(vars(owner).items()):
                if key not in usual and _is_plain(value):
                    yield _place(f"attribute {prefix}{key}", owner, key, False, value)


def _buffers(owner: Any) -> list[tuple[str, Any]]:
    import torch

    if isinstance(owner, torch.jit.ScriptModule):
        return list(owner.named_buffers(recurse=False))
    return list(owner._buffers.items())  # with those that are None until forward fills them


def _place(label: str, owner: Any, key: str, buffer: bool, value: Any) -> _Place:
    return _Place(label, owner, key, buffer, value, _copy(value), _mark(value))


def _value(place: _Place) -> Any:
    if place.buffer:
        return dict(_buffers(place.owner)).get(place.key)
    return vars(place.owner).get(place.key)


def _give_back(place: _Place) -> None:
    """Put the original object back, with its original content: other modules may hold the same one."""
    import torch

    value = place.original
    if isinstance(value, torch.Tensor) and _mark(value) != place.mark:
        with torch.inference_mode(value.is_inference()), torch.no_grad():
            if value.shape == place.copy.shape:
                value.copy_(place.copy)
            else:
                value = place.copy.clone()
    elif isinstance(value, list):
        value[:] = _copy(place.copy)
    elif isinstance(value, dict):
        value.clear()
        value.update(_copy(place.copy))
    elif isinstance(value, tuple):
        value = _copy(place.copy)
    if place.buffer and not isinstance(place.owner, torch.jit.ScriptModule):
        place.owner._buffers[place.key] = value
    elif place.buffer:
        setattr(place.owner, place.key, value)
    else:
        vars(place.owner)[place.key] = value


def _is_plain(value: Any) -> bool:
    import torch

    kinds = bool | int | float | str | list | tuple | dict | torch.Tensor
    return value is None or (isinstance(value, kinds) and not isinstance(value, torch.nn.Parameter))


def _copy(value: Any, depth: int = _DEPTH) -> Any:
    import torch

    if isinstance(value, torch.nn.Parameter) or depth == 0:
        return value
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value) in (list, tuple):
        return type(value)(_copy(item, depth - 1) for item in value)
    if type(value) is dict:
        return {key: _copy(item, depth - 1) for key, item in value.items()}
    return value


def _mark(value: Any, depth: int = _DEPTH) -> Any:
    """Something that differs when the content of ``value`` does; objects of other kinds are only told apart by type."""
    import torch

    if isinstance(value, torch.nn.Parameter):
        return id(value)
    if isinstance(value, torch.Tensor):
        return _bytes(value)
    if value is None or isinstance(value, bool | int | float | str):
        return (type(value).__name__, repr(value))
    if isinstance(value, list | tuple) and depth:
        return tuple(_mark(item, depth - 1) for item in value)
    if isinstance(value, dict) and depth:
        return tuple((repr(key), _mark(item, depth - 1)) for key, item in value.items())
    return type(value).__name__


def _bytes(tensor: Any) -> tuple[Any, ...]:
    """Type, shape and checksum of a tensor's memory, so that NaN equals NaN."""
    import torch

    about = (str(tensor.dtype), tuple(tensor.shape))
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        return (*about, repr(tensor))
    flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    return (*about, zlib.crc32(flat.view(torch.uint8).numpy()) if flat.numel() else 0)

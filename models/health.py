"""The state of a module's weights: whether they are numbers, of which type, and in which mode the module is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from convert.errors import InputError


def require_sound(tensors: Iterable[tuple[str, Any]], path: str, buffers: set[str]) -> None:
    """Refuse weights that are missing or no numbers.

    Args:
        tensors: name and tensor of every parameter and buffer.
        path: the file, for the message.
        buffers: names of those that are buffers; masks there are often minus infinity, which is right.

    Raises:
        InputError: names the first tensor that holds NaN, a parameter with infinity, or one without values.
    """
    import torch

    for name, tensor in tensors:
        if torch.nn.parameter.is_lazy(tensor) or tensor.is_meta:
            raise InputError(f"weight {name} of {path} has no values yet; run the model once before it is saved")
        if tensor.is_quantized or not (tensor.is_floating_point() or tensor.is_complex()):
            continue
        if bool(torch.isnan(tensor).any()):
            raise InputError(f"weight {name} of {path} holds NaN; find out how that came about in training")
        if name not in buffers and bool(torch.isinf(tensor).any()):
            raise InputError(f"weight {name} of {path} holds infinity; find out how that came about in training")


def require_unquantised(module: Any, path: str) -> None:
    """Refuse modules that torch has quantised: their steps round otherwise in every runtime.

    Raises:
        InputError: names the quantised parts, or the operators of a script that are.
    """
    parts = [
        f"{name or 'the module'} ({type(part).__name__})" for name, part in module.named_modules() if _quantised(part)
    ]
    if hasattr(module, "inlined_graph"):
        parts += sorted({node.kind() for node in module.inlined_graph.nodes() if node.kind().startswith("quantized::")})
    if parts:
        more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
        raise InputError(
            f"{path} holds parts that torch has quantised ({', '.join(parts[:3])}{more}), whose rounding no runtime "
            "repeats; give the float module that they were made from"
        )


def _quantised(part: Any) -> bool:
    where, name = type(part).__module__, type(part).__name__
    inside = where.startswith(("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized"))
    # These two compute in float, and a module of torch.ao.nn.quantized.reference does so too.
    return inside and ".reference" not in where and name not in ("FloatFunctional", "FXFloatFunctional")


def to_eval(module: Any) -> list[str]:
    """Put a module into evaluation mode, and say so if it, or a part of it, was not."""
    in_train = [name for name, part in module.named_modules() if getattr(part, "training", False)]
    module.eval()
    if not in_train:
        return []
    if "" in in_train:
        return ["was saved in train mode; put in eval mode"]
    return [f"{len(in_train)} parts were in train mode (such as {in_train[0]}); put in eval mode"]


def in_float32(module: Any) -> list[str]:
    """Turn a bfloat16 module into float32, since neither numpy nor most runtimes have that type."""
    import torch

    if not any(item.dtype == torch.bfloat16 for item in [*module.parameters(), *module.buffers()]):
        return []
    module.to(torch.float32)
    return ["bfloat16 weights turned into float32, which holds them exactly"]


def weight_notes(parameters: Iterable[Any]) -> list[str]:
    """A word on weights that are floating but not float32."""
    names = {str(item.dtype).removeprefix("torch.") for item in parameters if item.is_floating_point()}
    return [f"{name} weights" for name in sorted(names - {"float32"})]


def size_of(parameters: Iterable[Any]) -> tuple[int, int]:
    """How many numbers these tensors hold, and in how many bytes."""
    pairs = [(item.numel(), item.numel() * item.element_size()) for item in parameters]
    return sum(count for count, _ in pairs), sum(size for _, size in pairs)

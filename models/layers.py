"""The layers of a module that tell what it takes, in the order in which the module has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from convert.models.frozen import frozen_layers
from convert.models.guesses import Layer

#: Attribute with the size of the input, by class; what is missing here is told by the number of axes of the weights.
_SIZES = {
    "Linear": "in_features",
    "LSTM": "input_size",
    "GRU": "input_size",
    "RNN": "input_size",
    "LSTMCell": "input_size",
    "GRUCell": "input_size",
    "RNNCell": "input_size",
    "MultiheadAttention": "embed_dim",
    "Embedding": "num_embeddings",
    "EmbeddingBag": "num_embeddings",
    "GroupNorm": "num_channels",
    **{f"Conv{digit}d": "in_channels" for digit in (1, 2, 3)},
    **{f"ConvTranspose{digit}d": "in_channels" for digit in (1, 2, 3)},
    **{f"BatchNorm{digit}d": "num_features" for digit in (1, 2, 3)},
    **{f"InstanceNorm{digit}d": "num_features" for digit in (1, 2, 3)},
}
_INPUT_WEIGHTS = ("weight", "weight_ih_l0", "weight_ih", "in_proj_weight")
_BY_AXES = {2: "Linear", 3: "Conv1d", 4: "Conv2d", 5: "Conv3d"}


def first_layers(module: Any) -> Iterator[Layer]:
    """Layers with an input size, as ``module`` has them; parameters that no known layer holds come last."""
    if getattr(module, "inlined_graph", None) is not None and not any(True for _ in module.parameters()):
        yield from frozen_layers(module.inlined_graph)
        return
    inside: list[str] = []
    loose: list[Layer] = []
    for name, part in module.named_modules():
        if any(not parent or name.startswith(f"{parent}.") for parent in inside):
            continue
        found = list(_layers(name, part))
        if _class_of(part) in ("MultiheadAttention", "LSTM", "GRU", "RNN"):
            inside.append(name)
        if not found:
            loose += _parameters(name, part)
        yield from found
    yield from loose


def _layers(name: str, part: Any) -> Iterator[Layer]:
    kind = _class_of(part)
    weights = _weights(part)
    dtype = _dtype(weights)
    if kind == "LayerNorm":
        shape = tuple(getattr(part, "normalized_shape", ()) or weights["weight"].shape)
        yield Layer(name, kind, shape[-1], dtype, shape=shape if len(shape) > 1 else ())
        return
    for size in _sizes(part, kind, weights):
        yield Layer(name, kind, size, dtype, _batch_first(part))


def _sizes(part: Any, kind: str, weights: dict[str, Any]) -> list[int]:
    """The input size; two of them where a trace leaves open whether a convolution is a depthwise one."""
    stated = getattr(part, _SIZES.get(kind, ""), None)
    if isinstance(stated, int) and stated > 0:
        return [stated]
    weight = next((weights[key] for key in _INPUT_WEIGHTS if key in weights), None)
    if weight is None or kind not in _SIZES:
        return []
    if kind.startswith("Conv") and not kind.startswith("ConvTranspose"):
        depthwise = [int(weight.shape[0])] if weight.shape[1] == 1 else []
        return [int(weight.shape[1]), *depthwise]
    first = kind.startswith(("ConvTranspose", "Embedding", "BatchNorm", "InstanceNorm", "GroupNorm"))
    return [int(weight.shape[0 if first else -1])]


def _class_of(part: Any) -> str:
    """The class of ``torch.nn`` that ``part`` is, inherits from, or has weights like."""
    script = getattr(part, "original_name", None)
    names = [script] if isinstance(script, str) else [kind.__name__ for kind in type(part).__mro__]
    known = next((name for name in names if name in _SIZES or name == "LayerNorm"), None)
    if known is not None:
        return known
    weight = _weights(part).get("weight")
    return _BY_AXES.get(weight.dim(), "") if weight is not None else ""


def _weights(part: Any) -> dict[str, Any]:
    return dict(part.named_parameters(recurse=False))


def _dtype(weights: dict[str, Any]) -> str:
    floating = [item for item in weights.values() if item.is_floating_point()]
    return str(floating[0].dtype).removeprefix("torch.") if floating else "float32"


def _batch_first(part: Any) -> bool | None:
    value = getattr(part, "batch_first", None)
    return value if isinstance(value, bool) else None


def _parameters(name: str, part: Any) -> Iterator[Layer]:
    """Parameters outside of known layers: something that fits them is multiplied with them or added to them."""
    for key, item in part.named_parameters(recurse=False):
        if item.dim() and item.is_floating_point():
            where = f"{name}.{key}" if name else key
            kind, dtype = "parameter", _dtype({key: item})
            yield Layer(where, kind, int(item.shape[0]), dtype, shape=tuple(item.shape))
            for size in dict.fromkeys((item.shape[0], item.shape[-1]) if item.dim() > 1 else ()):
                yield Layer(where, kind, int(size), dtype)

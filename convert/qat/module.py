"""The module that is trained: every step of the graph in order, rounded as the integer kernels will round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from convert.errors import InputError
from convert.qat.fake import (
    Fixed,
    Quantizer,
    activation_scale,
    quantize_activation,
    quantize_bias,
    quantize_weight,
    weight_scale,
)
from convert.qat.kinds import DROPOUTS, FIXED
from convert.qat.plan import Kind, Scales, Step, substitute

#: The layer of a model that is one layer.
_ROOT = "qat_root"
#: Where the ranges lie in the module, beside the layers under their own names.
RANGES = "quantizers"


class Layer(nn.Module):
    """A convolution or linear layer; its weights are float and trained, and rounded on their way into the operator."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """Take over ``weight`` (output channels first) and ``bias``."""
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = None if bias is None else nn.Parameter(bias)

    def rounded(self, input_scale: Tensor) -> tuple[Tensor, Tensor | None]:
        """Weight and bias on their grids; the bias depends on the scale of what comes in."""
        weight = quantize_weight(self.weight)
        if self.bias is None:
            return weight, None
        return weight, quantize_bias(self.bias, input_scale, weight_scale(self.weight))


class QatModule(nn.Module):
    """A prepared model. It takes and gives what the model does, and is trained, saved and copied as any module.

    In train mode the ranges follow the data; in eval mode they stand still, and the module computes what the int8 file
    will (up to the last step of a few kernels). Layers lie under their own names, the ranges under ``quantizers``.

    All other names begin with ``qat_``, so that they hide no layer.

    Attributes:
        qat_steps, qat_outputs, qat_scales: the graph; see :mod:`convert.qat.plan`.
        qat_inputs: names of what it takes, in order.
        qat_example: inputs that it was recorded with, flat.
        qat_dynamic: axis -> symbol of the sizes that may change, for each input.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        outputs: Sequence[str],
        scales: Scales,
        weights: Mapping[str, tuple[Tensor, Tensor | None]],
        constants: Mapping[str, Tensor],
        averaging: float,
    ) -> None:
        """Build from a folded graph; :func:`convert.qat.prepare` does it all."""
        super().__init__()
        self.qat_steps, self.qat_outputs, self.qat_scales = tuple(steps), tuple(outputs), scales
        self.qat_inputs = tuple(step.name for step in steps if step.kind is Kind.INPUT)
        self.qat_out_spec: Any = None
        self.qat_example: tuple[Tensor, ...] = ()
        self.qat_dynamic: tuple[dict[int, str], ...] = ()
        self._qat_exact = False
        for path, (weight, bias) in weights.items():
            _place(self, path, Layer(weight, bias))
        for path, value in constants.items():
            _place_tensor(self, path, value)
        made = {f"{key}_range": _quantizer(scales, key, averaging) for key in dict.fromkeys(scales.group.values())}
        self.add_module(RANGES, nn.ModuleDict(made))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the model gives for these inputs, nested as it nests them."""
        values = self.qat_run(self._qat_feeds(args, kwargs))
        flat = [values[name] for name in self.qat_outputs]
        return torch.utils._pytree.tree_unflatten(flat, self.qat_out_spec)

    def _qat_feeds(self, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Tensor]:
        tensors = torch.utils._pytree.tree_leaves(args)
        feeds = dict(zip(self.qat_inputs, tensors, strict=False)) | dict(kwargs)
        if len(tensors) > len(self.qat_inputs) or feeds.keys() != set(self.qat_inputs):
            raise InputError(
                f"the prepared module takes {', '.join(self.qat_inputs)}; got {len(tensors) + len(kwargs)} inputs"
            )
        return feeds

    def qat_run(self, feeds: Mapping[str, Tensor]) -> dict[str, Any]:
        """The result of every step by its name; ``feeds`` has each input."""
        values: dict[str, Any] = {}
        for step in self.qat_steps:
            values[step.name] = self._qat_result(step, values, feeds)
            point = self.qat_scales.points.get(step.name)
            if point is not None and not self._qat_exact:
                values[step.name] = self._qat_quantizer(point.group)(values[step.name], point.site)
        return values

    def _qat_result(self, step: Step, values: Mapping[str, Any], feeds: Mapping[str, Tensor]) -> Any:
        if step.kind is Kind.INPUT:
            return feeds[step.name]
        if step.kind is Kind.CONSTANT:
            return self._qat_constant(step)
        args = substitute(step.args, lambda ref: self._qat_read(step, ref.name, values[ref.name]))
        kwargs = substitute(step.kwargs, lambda ref: values[ref.name])
        if step.kind is Kind.LAYER:
            args = (args[0], *self._qat_weights(step), *args[1:])
        elif step.operator in DROPOUTS:
            args = (args[0], args[1], self.training)
        return operator(step.target)(*args, **kwargs)

    def _qat_read(self, step: Step, name: str, value: Any) -> Any:
        edge = self.qat_scales.edges.get((step.name, name))
        return value if edge is None or self._qat_exact else self._qat_quantizer(edge.group)(value, edge.site)

    def _qat_weights(self, step: Step) -> tuple[Tensor, Tensor | None]:
        layer = self.qat_layer(step)
        if self._qat_exact:
            return layer.weight, layer.bias
        return layer.rounded(self.qat_input_scale(step))

    def qat_input_scale(self, step: Step) -> Tensor:
        """Scale of what the layer ``step`` reads."""
        scale: Tensor = self._qat_quantizer(self.qat_scales.group[step.args[0].name]).scale()[0]
        return scale

    def qat_layer(self, step: Step) -> Layer:
        """The layer whose weights ``step`` uses."""
        found: Layer = self.get_submodule(step.path or _ROOT)
        return found

    def _qat_constant(self, step: Step) -> Tensor:
        """A weight that is added or multiplied: one scale for all of it, from its own values and zero."""
        owner, _, name = step.path.rpartition(".")
        value: Tensor = getattr(self.get_submodule(owner), name)
        if self._qat_exact:
            return value
        low, high = value.detach().amin().clamp_max(0).float(), value.detach().amax().clamp_min(0).float()
        return quantize_activation(value, *activation_scale(low, high))

    def _qat_quantizer(self, key: str) -> Any:
        return self.get_submodule(f"{RANGES}.{key}_range")

    def qat_quantizer(self, name: str) -> Any:
        """The range of the tensor that the step ``name`` gives."""
        return self._qat_quantizer(self.qat_scales.group[name])

    @contextmanager
    def qat_exact(self) -> Iterator[None]:
        """While this lasts nothing is rounded: the float network with the weights as they are."""
        self._qat_exact = True
        try:
            yield
        finally:
            self._qat_exact = False


def operator(target: str) -> Any:
    """The function that ``target`` names: an aten overload, or one of Python's own."""
    import operator as python

    space, _, rest = target.partition(".")
    if space != "aten":
        return getattr(python, rest)
    name, _, overload = rest.partition(".")
    return getattr(getattr(torch.ops.aten, name), overload)


def _quantizer(scales: Scales, key: str, averaging: float) -> nn.Module:
    return Fixed(*FIXED[scales.fixed[key]]) if key in scales.fixed else Quantizer(scales.sites[key], averaging)


def _owner(root: nn.Module, path: str) -> nn.Module:
    """The module at ``path``, made of empty ones where there is none."""
    at = root
    for part in filter(None, path.split(".")):
        if part not in at._modules:
            at.add_module(part, nn.Module())
        found = at._modules[part]
        assert found is not None  # noqa: S101  (made above)
        at = found
    return at


def _place(root: nn.Module, path: str, layer: Layer) -> None:
    owner, _, name = (path or _ROOT).rpartition(".")
    _owner(root, owner).add_module(name, layer)


def _place_tensor(root: nn.Module, path: str, value: Tensor) -> None:
    owner, _, name = path.rpartition(".")
    setattr(_owner(root, owner), name, value if isinstance(value, nn.Parameter) else None)
    if not isinstance(value, nn.Parameter):
        delattr(_owner(root, owner), name)
        _owner(root, owner).register_buffer(name, value)

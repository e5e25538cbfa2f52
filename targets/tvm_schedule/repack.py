"""Replace products and convolutions of Relax by the kernels of ``convolution.py`` and ``product.py``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from convert.targets.tvm_schedule import convolution, product
from convert.targets.tvm_schedule.constants import folded, value_of
from convert.targets.tvm_schedule.registers import Registers
from convert.targets.tvm_schedule.tiles import ceil_div, depthwise_tile, gemm_tile

Array = np.ndarray[Any, Any]
#: A function of tensors that makes the expression, the kernel's name, and these tensors.
Made = tuple[Callable[..., Any], str, tuple[Any, ...]]


def repacked(module: Any, registers: Registers) -> Any:
    """``module`` with constants folded and these operators replaced, in every function of Relax."""
    from tvm import relax

    rewriter = _rewriter(module, registers)
    for name, function in module.functions_items():
        if isinstance(function, relax.Function) and "Primitive" not in (function.attrs or {}):
            rewriter.builder_.update_func(name, rewriter.visit_expr(function))
    return rewriter.builder_.get()


def _rewriter(module: Any, registers: Registers) -> Any:
    from tvm import relax

    @relax.expr_functor.mutator
    class Rewriter(relax.PyExprMutator):  # the class only exists where TVM is
        def visit_call_(self, call: Any) -> Any:
            call = super().visit_call_(call)
            value = folded(call, self.constant)
            if value is not None:
                return relax.const(value, str(value.dtype))
            made = _kernel(call, self.constant, registers)
            if made is None:
                return call
            function, name, tensors = made
            new = self.builder_.call_te(function, *tensors, primfunc_name_hint=name)
            return self.builder_.normalize(new)

        def constant(self, argument: Any) -> Array | None:
            bound = self.lookup_binding(argument) if isinstance(argument, relax.Var) else argument
            return value_of(bound)

    return Rewriter(module)


def _kernel(call: Any, constant: Callable[[Any], Array | None], registers: Registers) -> Made | None:
    make = KERNELS.get(name_of(call))
    if make is None or dtypes_of(call) != {"float32"}:
        return None
    return make(call, constant(call.args[1]), registers)


def name_of(call: Any) -> str:
    """The operator's name; empty for a call of a function."""
    return str(getattr(call.op, "name", ""))


def dtypes_of(call: Any) -> set[str]:
    """The dtypes of all arguments and of the result."""
    return {str(getattr(one.ty, "dtype", "")).removeprefix("T.") for one in (*call.args, call)}


def sizes_of(expression: Any) -> list[int | None] | None:
    """The sizes of a tensor, None where one is known at run time; None for one without a known rank."""
    shape = getattr(expression.ty, "shape", None)
    if shape is None or not hasattr(shape, "values"):
        return None
    found = [size if isinstance(size, int) else getattr(size, "value", None) for size in shape.values]
    return [None if size is None else int(size) for size in found]


def fits(call: Any) -> bool:
    """Whether a convolution has a kernel here: float32, a fixed image, groups of whole vectors or single channels."""
    sizes, outputs = sizes_of(call.args[0]), sizes_of(call)
    if sizes is None or outputs is None or dtypes_of(call) != {"float32"}:
        return False
    layout = str(call.attrs.data_layout)
    if None in [sizes[layout.index(axis)] for axis in "CHW"] or 0 in [*sizes, *outputs]:
        return False
    channels, made, groups = sizes[layout.index("C")], outputs[layout.index("C")], int(call.attrs.groups)
    if name_of(call) == TRANSPOSED:
        return groups == 1 and min(_border(call)) >= 0
    return groups == 1 or groups == channels == made or (made or 0) // groups % NARROWEST == 0


def _border(call: Any) -> list[int]:
    """What a transposed convolution has around its spread-out image: top, left, bottom, right."""
    layout, weights = str(call.attrs.kernel_layout), sizes_of(call.args[1]) or []
    reach = [int(call.attrs.dilation[axis]) * (int(weights[layout.index("HW"[axis])] or 1) - 1) for axis in (0, 1)]
    more = [int(size) for size in call.attrs.output_padding]
    top, left, bottom, right = (int(size) for size in call.attrs.padding)
    return [reach[0] - top, reach[1] - left, reach[0] - bottom + more[0], reach[1] - right + more[1]]


#: Channels in a group that fill a vector on every CPU known here.
NARROWEST = 16


def _convolution(call: Any, weights: Array | None, registers: Registers) -> Made | None:
    attributes, outputs, image = call.attrs, sizes_of(call), sizes_of(call.args[0])
    if (
        weights is None
        or attributes.data_layout != "NHWC"
        or attributes.kernel_layout != "HWIO"
        or outputs is None
        or image is None
    ):
        return None
    if not fits(call):
        return None
    down, right = (int(value) for value in attributes.strides)
    top, left, bottom, behind = (int(value) for value in attributes.padding)
    low, far = (int(value) for value in attributes.dilation)
    window = convolution.Window((down, right), (top, left, bottom, behind), (low, far))
    _, high, wide, made = (int(size or 0) for size in outputs)
    groups = int(attributes.groups)
    if groups > 1 and groups == made == image[-1]:
        return _depthwise(call, weights, window, (high, wide, made), registers)
    tile = gemm_tile(high, wide, made // groups, registers)
    while groups > 1 and made // groups % tile.columns:
        tile = gemm_tile(high, wide, registers.lanes * (tile.vectors - 1), registers)
    packed = _constant(convolution.pack(weights, tile.columns))
    made_of = partial(convolution.convolution, window=window, outputs=made, groups=groups, tile=tile)
    return made_of, "conv2d", (call.args[0], packed)


def _transposed(call: Any, weights: Array | None, registers: Registers) -> Made | None:
    """As a convolution of the image with zeros between its pixels, by the kernel turned by half a turn."""
    attributes, outputs = call.attrs, sizes_of(call)
    if weights is None or attributes.data_layout != "NHWC" or attributes.kernel_layout != "HWOI" or outputs is None:
        return None
    if not fits(call):
        return None
    top, left, bottom, right = _border(call)
    (low, far), (down, across) = ([int(size) for size in pair] for pair in (attributes.dilation, attributes.strides))
    window = convolution.Window((1, 1), (top, left, bottom, right), (low, far), (down, across))
    _, high, wide, made = (int(size or 0) for size in outputs)
    tile = gemm_tile(high, wide, made, registers)
    packed = _constant(convolution.pack(weights[::-1, ::-1].transpose(0, 1, 3, 2), tile.columns))
    made_of = partial(convolution.convolution, window=window, outputs=made, groups=1, tile=tile)
    return made_of, "conv2d_transpose", (call.args[0], packed)


def _depthwise(
    call: Any, weights: Array, window: convolution.Window, sizes: tuple[int, int, int], registers: Registers
) -> Made:
    high, wide, channels = sizes
    half = max(registers.lanes // 2, 1)
    padded = channels if channels % half == 0 else ceil_div(channels, registers.lanes) * registers.lanes
    tile = depthwise_tile(high, wide, padded, registers)
    filled = np.pad(weights[:, :, 0, :], ((0, 0), (0, 0), (0, padded - channels)))
    made_of = partial(convolution.depthwise, window=window, tile=tile)
    return made_of, "depthwise", (call.args[0], _constant(filled))


def _product(call: Any, weights: Array | None, registers: Registers) -> Made | None:
    x, y = sizes_of(call.args[0]), sizes_of(call.args[1])
    result = sizes_of(call)
    if x is None or y is None or result is None or min(len(x), len(y)) < 2 or 0 in (*x, *y, *result):
        return None
    if weights is not None and weights.ndim == 2:
        outputs = int(weights.shape[1])
        tile = gemm_tile(x[-3] if len(x) > 2 else 1, x[-2], outputs, registers)
        packed = _constant(product.pack(weights, tile.columns))
        return partial(product.dense, outputs=outputs, tile=tile), "dense", (call.args[0], packed)
    tile = gemm_tile(1, x[-2], y[-1], registers)
    lead = list(call.ty.shape.values)[:-2]
    return partial(product.matmul, lead=lead, tile=tile), "matmul", tuple(call.args)


def _constant(array: Array) -> Any:
    from tvm import relax

    return relax.const(np.ascontiguousarray(array), "float32")


TRANSPOSED = "relax.nn.conv2d_transpose"
#: What makes the kernel of an operator, from the call and the weights, where these are constant.
KERNELS: dict[str, Callable[[Any, Array | None, Registers], Made | None]] = {
    "relax.nn.conv2d": _convolution,
    TRANSPOSED: _transposed,
    "relax.matmul": _product,
}

"""What TVM's ONNX front end lacks, added to it: recurrent layers, and sizes of Resize that are known at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from convert.errors import StageError
from convert.targets.tvm_recurrent import GATES, Cell, cells, kernel

#: Sizes that Resize changes of ``[N, C, H, W]``.
SPATIAL = 2


def import_graph(model: Any) -> Any:
    """A ``ModelProto`` as an ``IRModule`` of Relax, weights inside.

    Raises:
        StageError: a recurrent layer has settings that are not known here.
    """
    from tvm.relax.frontend.onnx import onnx_frontend

    known = onnx_frontend._get_convert_map  # the front end has no other way to learn an operator
    more = _added(onnx_frontend)
    onnx_frontend._get_convert_map = lambda: {**known(), **more}
    try:
        return onnx_frontend.from_onnx(model, keep_params_in_input=False)
    finally:
        onnx_frontend._get_convert_map = known


def known_operators() -> set[str]:
    """The ONNX operators that :func:`import_graph` knows."""
    from tvm.relax.frontend.onnx import onnx_frontend

    # The last two are dealt with before the map is looked at.
    return {*onnx_frontend._get_convert_map(), *_added(onnx_frontend), "If", "Constant"}


def _added(onnx_frontend: Any) -> dict[str, type]:
    more = {kind: _recurrent(onnx_frontend.OnnxOpConverter, kind) for kind in GATES}
    return more | {"Resize": _resize(onnx_frontend.Resize), "Clip": _clip(onnx_frontend.Clip)}


def _recurrent(base: type, kind: str) -> type:
    def convert(cls: type, bb: Any, inputs: Any, attributes: Mapping[str, Any], params: Any) -> Any:
        del cls, params
        return _layer(bb, kind, list(inputs), attributes)

    return type(kind, (base,), {"_impl_v7": classmethod(convert)})


def _clip(base: Any) -> type:
    """Clip to constants as operators of Relax; the front end makes kernels of it, which no pass can look into."""

    def convert(cls: type, bb: Any, inputs: Any, attributes: Mapping[str, Any], params: Any) -> Any:
        from tvm import relax

        del cls
        x, low, high = (*inputs, None, None)[:3]
        bounds = [bound.value.numpy() for bound in (low, high) if hasattr(getattr(bound, "value", None), "numpy")]
        given = sum(bound is not None for bound in (low, high))
        if len(bounds) != given or any(bound.size != 1 or bound != bound for bound in bounds):  # noqa: PLR0124  (NaN)
            return base.get_converter(13)(bb, inputs, attributes, params)
        x = x if low is None else bb.emit(relax.op.maximum(x, low))
        return x if high is None else bb.emit(relax.op.minimum(x, high))

    return type("Clip", (base,), {"_impl_v11": classmethod(convert), "_impl_v13": classmethod(convert)})


def _resize(base: Any) -> type:
    """Resize to sizes that are known at run time only; any other is left to the front end."""

    def convert(cls: type, bb: Any, inputs: Any, attributes: Mapping[str, Any], params: Any) -> Any:
        del cls
        x, roi, scales, sizes = (*inputs, None, None, None)[:4]
        wanted = _dynamic_sizes(x, scales, sizes)
        if wanted is None or roi is not None or len(wanted) != SPATIAL:
            return base.get_converter(18)(bb, inputs, attributes, params)
        return _resized(x, wanted, attributes)

    return type("Resize", (base,), {"_impl_v18": classmethod(convert)})


def _dynamic_sizes(x: Any, scales: Any, sizes: Any) -> list[Any] | None:
    """Height and width of the result as expressions; None where they are fixed, or cannot be said in whole numbers."""
    from tvm import relax, tirx

    shape = list(x.ty.shape)[2:]
    if isinstance(sizes, relax.ShapeExpr):
        found = list(sizes.values)[2:]
    elif hasattr(getattr(scales, "value", None), "numpy"):
        factors = scales.value.numpy()[2:]
        if any(factor != int(factor) for factor in factors):
            return None
        found = [size * int(factor) for size, factor in zip(shape, factors, strict=True)]
    else:
        return None
    return found if any(not isinstance(size, int | tirx.IntImm) for size in (*shape, *found)) else None


def _resized(x: Any, sizes: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    from tvm import relax

    mode = attributes.get("mode", b"nearest").decode()
    return relax.op.image.resize2d(
        x,
        size=relax.ShapeExpr(sizes),
        roi=[0.0] * (2 * SPATIAL),
        layout="NCHW",
        method="nearest_neighbor" if mode == "nearest" else mode,
        coordinate_transformation_mode=attributes.get("coordinate_transformation_mode", b"half_pixel").decode(),
        rounding_method=attributes.get("nearest_mode", b"round_prefer_floor").decode(),
        cubic_alpha=attributes.get("cubic_coeff_a", -0.75),
        cubic_exclude=attributes.get("exclude_outside", 0),
        extrapolation_value=attributes.get("extrapolation_value", 0.0),
    )


def _layer(bb: Any, kind: str, inputs: list[Any], attributes: Mapping[str, Any]) -> Any:
    """The node as Relax: outputs ``Y [T, directions, N, hidden]``, ``Y_h`` and, of an LSTM, ``Y_c``."""
    from tvm import relax

    inputs += [None] * (8 - len(inputs))
    x, weights, recurrent, bias, lengths, *rest = inputs
    if kind == "LSTM" and rest[2] is not None:
        raise StageError("LSTM with peepholes is not known here; the settings of torch's layers are")
    states = rest[: 2 if kind == "LSTM" else 1]
    results: list[list[Any]] = []
    for index, cell in enumerate(cells(kind, attributes)):
        w, r = _weights(weights, index), _weights(recurrent, index)
        inner, outer = _biases(cell, None if bias is None else _weights(bias, index), r.shape[0])
        products = bb.emit(relax.op.matmul(x, relax.const(w.T.copy())))
        products = bb.emit(relax.op.add(products, relax.const(outer)))
        first = [_first(bb, x, state, index, cell.hidden) for state in states]
        args = (products, relax.const(r.T.copy()), relax.const(inner), first, lengths)
        made = bb.emit_te(lambda *given, cell=cell: kernel(cell, *given), *args, primfunc_name_hint=kind.lower())
        results.append([bb.emit(relax.TupleGetItem(made, place)) for place in range(1 + len(states))])
    every = relax.op.stack([one[0] for one in results], axis=1)
    last = [relax.op.stack([one[1 + place] for one in results], axis=0) for place in range(len(states))]
    return relax.Tuple([bb.emit(value) for value in (every, *last)])


def _weights(value: Any, index: int) -> Any:
    constant: Any = getattr(value, "value", None)
    if not hasattr(constant, "numpy"):
        raise StageError("a recurrent layer whose weights are computed is not known here; give it constant ones")
    return constant.numpy()[index]


def _biases(cell: Cell, bias: Any, wide: int) -> tuple[Any, Any]:
    """What the kernel adds to ``R h`` of a GRU's hidden gate, and what is added to ``X W^T``."""
    import numpy as np

    both = np.zeros(2 * wide, np.float32) if bias is None else bias
    outer, second = both[:wide].copy(), both[wide:]
    inner = np.zeros(cell.hidden, np.float32)
    if cell.kind == "GRU" and cell.linear_before_reset:
        inner, second = second[-cell.hidden :].copy(), np.concatenate([second[: -cell.hidden], inner])
    return inner, outer + second


def _first(bb: Any, x: Any, state: Any, index: int, hidden: int) -> Any:
    from tvm import relax

    if state is None:
        batch = x.ty.shape[1]
        return bb.emit(relax.op.zeros((batch, hidden), "float32"))
    return bb.emit(relax.op.take(state, relax.const(index, "int64"), axis=0))

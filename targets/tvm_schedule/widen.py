"""Convolutions of sequences as those of images that are one pixel high, so that one kernel serves both."""

from __future__ import annotations

from typing import Any

from convert.targets.tvm_schedule.repack import fits, name_of

CONV1D = "relax.nn.conv1d"


def widened(module: Any) -> Any:
    """``module`` with every ``conv1d`` of ``[N, C, W]`` as a ``conv2d`` of ``[N, C, 1, W]``."""
    from tvm import relax

    rewriter = _rewriter(module)
    for name, function in module.functions_items():
        if isinstance(function, relax.Function) and "Primitive" not in (function.attrs or {}):
            rewriter.builder_.update_func(name, rewriter.visit_expr(function))
    return rewriter.builder_.get()


def _rewriter(module: Any) -> Any:
    from tvm import relax

    @relax.expr_functor.mutator
    class Rewriter(relax.PyExprMutator):  # the class only exists where TVM is
        def visit_call_(self, call: Any) -> Any:
            call = super().visit_call_(call)
            if name_of(call) != CONV1D or call.attrs.data_layout != "NCW" or call.attrs.kernel_layout != "OIW":
                return call
            x, weights = (self.builder_.emit(relax.op.expand_dims(one, 2)) for one in call.args)
            image = self.builder_.normalize(_image(x, weights, call.attrs))
            if not fits(image):
                return call
            return self.builder_.normalize(relax.op.squeeze(self.builder_.emit(image), [2]))

    return Rewriter(module)


def _image(x: Any, weights: Any, attributes: Any) -> Any:
    from tvm import relax

    before, after = (int(size) for size in attributes.padding)
    return relax.op.nn.conv2d(
        x,
        weights,
        strides=(1, int(attributes.strides[0])),
        padding=(0, before, 0, after),
        dilation=(1, int(attributes.dilation[0])),
        groups=int(attributes.groups),
    )

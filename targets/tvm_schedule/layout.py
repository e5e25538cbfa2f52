"""Bring a module to the form that the rules schedule: NHWC images, packed weights, everything fused."""

from __future__ import annotations

from typing import Any

from convert.targets.tvm_schedule.registers import Registers
from convert.targets.tvm_schedule.repack import fits, repacked

CONVOLUTION = "relax.nn.conv2d"


def relaid(module: Any, registers: Registers) -> Any:
    """The same functions of Relax with convolutions and products in this form, not yet lowered to kernels."""
    import tvm
    from tvm import relax

    steps = [relax.transform.DecomposeOpsForInference()]
    if _has_images(module):  # the pass fails on operators that have nothing to do with images
        steps += [relax.transform.ConvertLayout({}, _wanted)]
    steps += [relax.transform.CanonicalizeBindings()]
    tidy = [relax.transform.CanonicalizeBindings(), relax.transform.DeadCodeElimination()]
    return tvm.transform.Sequential(tidy)(repacked(tvm.transform.Sequential(steps)(module), registers))


def _has_images(module: Any) -> bool:
    from tvm import relax

    found: list[bool] = []

    def look(node: Any) -> None:
        found.append(isinstance(node, relax.Call) and bool(_wanted(node)))

    for _, function in module.functions_items():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, look)
    return any(found)


def _wanted(call: Any) -> dict[str, list[str]]:
    """What TVM's pass is to make of a convolution; nothing where no kernel is known for it."""
    if str(getattr(call.op, "name", "")) != CONVOLUTION or not fits(call):
        return {}
    return {CONVOLUTION: ["NHWC", "HWIO"]}


def fused(module: Any, target: Any) -> Any:
    """Kernels instead of operators, and what follows a kernel made part of it: as TVM's own CPU pipeline does."""
    import tvm
    from tvm import relax

    steps = [
        relax.backend.DispatchSampling(),
        relax.backend.DispatchSortScan(),
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FoldConstant(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
    ]
    with target:
        return tvm.transform.Sequential(steps)(module)

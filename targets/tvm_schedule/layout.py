"""Bring a module to the form that the rules schedule: NHWC images, packed weights, everything fused."""

from __future__ import annotations

from typing import Any

from convert.targets.tvm_schedule.registers import Registers
from convert.targets.tvm_schedule.repack import fits, name_of, repacked
from convert.targets.tvm_schedule.widen import widened

#: Operators with images and weights: the layouts that the kernels here take, and those that every kernel of TVM takes.
LAYOUTS = {
    "relax.nn.conv2d": (["NHWC", "HWIO"], ["NCHW", "OIHW"]),
    "relax.nn.conv2d_transpose": (["NHWC", "HWOI"], ["NCHW", "IOHW"]),
}
#: Operators that TVM cannot run as they are begin with these.
UNLOWERED = ("relax.nn.", "relax.image.")


def relaid(module: Any, registers: Registers, images: bool = True) -> Any:
    """The same functions of Relax with convolutions and products in this form, not yet lowered to kernels.

    Args:
        module: as a front end made it.
        registers: of the CPU that it is for.
        images: turn images; without this, only products of matrices are changed.
    """
    import tvm
    from tvm import relax

    steps = [relax.transform.DecomposeOpsForInference()]
    made = tvm.transform.Sequential(steps)(module)
    if images:
        made = widened(made)
    if images and _has_images(made):  # the pass fails on operators that have nothing to do with images
        made = relax.transform.ConvertLayout({}, _wanted)(made)
    tidy = [relax.transform.CanonicalizeBindings(), relax.transform.DeadCodeElimination()]
    made = relax.transform.CanonicalizeBindings()(made)
    return tvm.transform.Sequential(tidy)(repacked(made, registers))


def _has_images(module: Any) -> bool:
    return any(_wanted(call).get(name_of(call)) == LAYOUTS[name_of(call)][0] for call in _calls(module, tuple(LAYOUTS)))


def _calls(module: Any, prefixes: tuple[str, ...]) -> list[Any]:
    from tvm import relax

    found: list[Any] = []

    def look(node: Any) -> None:
        if isinstance(node, relax.Call) and name_of(node).startswith(prefixes):
            found.append(node)

    for _, function in module.functions_items():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, look)
    return found


def _wanted(call: Any) -> dict[str, list[str]]:
    """What TVM's pass is to make of an operator: of one without a kernel here, what TVM has a kernel for."""
    name = name_of(call)
    return {name: LAYOUTS[name][0 if fits(call) else 1]} if name in LAYOUTS else {}


def fused(module: Any, target: Any) -> Any:
    """Kernels instead of operators, and what follows a kernel made part of it: as TVM's own CPU pipeline does.

    Raises:
        ValueError: an operator is left that nothing runs.
    """
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
        made = tvm.transform.Sequential(steps)(module)
    left = {name_of(call) for call in _calls(made, UNLOWERED)}
    if left:
        raise ValueError(f"TVM has no kernel in this layout for {', '.join(sorted(left))}")
    return made

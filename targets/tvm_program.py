"""Make an exported program fit for TVM's front end, which miscompiles negative indices like reads out of bounds."""

from __future__ import annotations

from typing import Any


def normalise_indices(program: Any) -> Any:
    """Rewrite ``select`` and ``slice`` with negative positions into non-negative ones, where the size is fixed.

    A position on a dynamic size stays as it is; the check of the artifact finds out whether it was compiled right.

    Args:
        program: a ``torch.export.ExportedProgram``; its graph is changed in place.

    Returns:
        The same program.
    """
    import torch

    select, part = torch.ops.aten.select.int, torch.ops.aten.slice.Tensor
    for node in program.graph.nodes:
        if node.target is select:
            _normalise(node, (2,))
        elif node.target is part:
            _normalise(node, (2, 3))
    program.graph.lint()
    return program


def _normalise(node: Any, places: tuple[int, ...]) -> None:
    source = node.args[0].meta["val"]
    axis = node.args[1] if len(node.args) > 1 else 0
    size = source.shape[axis]
    if not isinstance(size, int):
        return
    args = list(node.args)
    for place in places:
        if place < len(args) and isinstance(args[place], int) and args[place] < 0:
            args[place] = max(0, args[place] + size)
    node.args = tuple(args)

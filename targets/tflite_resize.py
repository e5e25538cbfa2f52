"""A file for all sizes from two files that litert-torch wrote at two settings of the dynamic sizes.

litert-torch writes sizes as constants, and what it can do with dynamic ones is little. But the graph is the same at
other sizes, so the constants that differ are the ones that hold a size; each is made one that needs none, or is
computed from the shape of a tensor when the file runs. The check of every case proves the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from convert.cases import Plan, draw
from convert.errors import StageError
from convert.records import Dim, Golden
from convert.targets.base import BuildRequest
from convert.targets.tflite_compact import compact
from convert.targets.tflite_graph import Graph
from convert.targets.tflite_loop import loops
from convert.targets.tflite_recurrent import keep_recurrent_layers
from convert.targets.tflite_resize_rules import Step, adapt
from convert.targets.tflite_sizes import Sizes
from convert.targets.tflite_twins import Twins, require_same_model

NOTE = "made from two conversions at different sizes; the constants that held a size were replaced"


def litert_torch_resized(request: BuildRequest, file: Path) -> tuple[str, ...]:
    """From the module at two settings of the sizes; see the head of this file.

    Raises:
        StageError: there is no dynamic size, there is no module, or the two files cannot be joined.
    """
    import litert_torch
    from ai_edge_litert.tools import flatbuffer_utils

    dims = [dim for dim in request.golden.dims if dim.max > dim.min]
    if not dims:
        raise StageError("there is no dynamic dimension, so this route is the same as litert-torch")
    if request.source is None:
        raise StageError(f"route {request.route} needs the live module, and the source is a graph")
    source = request.source()
    keep_recurrent_layers()
    models = []
    for at, sizes in enumerate(two_settings(dims)):
        made = request.scratch / f"at{at}.tflite"
        litert_torch.convert(source.module, _example(request.golden, sizes)).export(str(made))
        models.append(loops(flatbuffer_utils.read_model_with_mutable_tensors(made)))
    flatbuffer_utils.write_model(joined(*models), file)
    return (NOTE,)


def two_settings(dims: Sequence[Dim]) -> tuple[dict[str, int], dict[str, int]]:
    """Two sizes for each dimension, one of them its largest; no two dimensions get the same pair where that can be.

    A constant can grow up to the largest size only, and two dimensions with the same pair look alike.
    """
    chosen: dict[str, tuple[int, int]] = {}
    for dim in dims:
        inside = range(max(dim.min, 2), dim.max)
        others = sorted({dim.opt, *inside, dim.min} - {dim.max}, key=lambda size: (size < 2, abs(size - dim.opt)))
        pairs = [pair for size in others for pair in ((size, dim.max), (dim.max, size))]
        chosen[dim.name] = next((pair for pair in pairs if pair not in chosen.values()), pairs[0])
    first, second = ({name: pair[i] for name, pair in chosen.items()} for i in (0, 1))
    return first, second


def _example(golden: Golden, sizes: dict[str, int]) -> tuple[Any, ...]:
    import torch

    fixed = {dim.name: dim.opt for dim in golden.dims}
    feeds = draw(Plan("export", "draw", fixed | sizes, 11), golden.inputs, {})
    return tuple(torch.from_numpy(feeds[spec.name]) for spec in golden.inputs)


def joined(first: Any, second: Any) -> Any:
    """Change ``first``, a ``ModelT`` as ``second``, into one that runs at both sizes; gives it.

    Raises:
        StageError: they are not the same graph, or a constant that differs cannot be replaced.
    """
    require_same_model(first, second)
    for index in range(len(first.subgraphs)):
        _join(Twins(Graph(first, first.subgraphs[index]), Graph(second, second.subgraphs[index])))
    return compact(first)


def _join(twins: Twins) -> None:
    graph, sizes, operators = twins.first, Sizes(twins), []
    for at, (operator, _) in enumerate(twins.operators):
        differing = twins.differing(at)
        if differing:
            adapt(Step(graph, twins, sizes, operator), differing)
        operators += [*graph.added, operator]
        graph.added.clear()
        sizes.passed(operator.outputs)
    graph.body.operators = operators
    for tensor, (ours, theirs) in twins.shapes.items():
        if ours != theirs:
            signature = [a if a == b else -1 for a, b in zip(ours, theirs, strict=True)]
            graph.body.tensors[tensor].shapeSignature = signature

"""Learned ranges on the values of a float32 ONNX graph, for QDQ.

The exporters rename values, but keep the operators and their order: structure decides, and values where it cannot.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from convert.errors import StageError
from convert.targets.base import BuildRequest
from convert.targets.learned import Array, Kinds, Learned, Node, Placed, feeds_of, place, program_values
from convert.targets.onnx_quant_graph import Graph
from convert.targets.onnx_quant_measure import plain_session
from convert.targets.ranges import Range

KINDS = Kinds(
    operators={
        "Add": ("add",),
        "AveragePool": ("avg_pool2d", "mean", "adaptive_avg_pool2d"),
        "Clip": ("relu6", "hardtanh"),
        "Concat": ("cat",),
        "Conv": ("conv2d",),
        "Gelu": ("gelu",),
        "Gemm": ("linear",),
        "GlobalAveragePool": ("mean", "adaptive_avg_pool2d"),
        "HardSwish": ("hardswish",),
        "MatMul": ("linear",),
        "MaxPool": ("max_pool2d",),
        "Mul": ("mul",),
        "ReduceMean": ("mean", "adaptive_avg_pool2d"),
        "Relu": ("relu",),
        "Resize": ("upsample_nearest2d", "upsample_bilinear2d"),
        "Sigmoid": ("sigmoid",),
        "Softmax": ("softmax", "_softmax"),
        "Sub": ("sub",),
        "Tanh": ("tanh",),
    },
    movers=frozenset(
        (
            "Cast",
            "DepthToSpace",
            "Expand",
            "Flatten",
            "Gather",
            "Identity",
            "Pad",
            "Reshape",
            "Slice",
            "Split",
            "Squeeze",
            "Transpose",
            "Unsqueeze",
        )
    ),
)


def learned_ranges(request: BuildRequest, graph: Graph) -> tuple[dict[str, Range], tuple[str, ...]]:
    """Value name -> range for ``graph``, from the ranges in ``request``; and a note for the report.

    Raises:
        StageError: a range may belong to either of two values, or the program that they were saved with is not there.
    """
    placed = place_on(request, graph)
    return placed.ranges, (placed.note,)


def place_on(request: BuildRequest, graph: Graph) -> Placed:
    """As :func:`learned_ranges`, with how each value was found."""
    if request.ranges is None or request.source is None:
        raise StageError("there are no learned ranges; save the trained module with convert.qat.save")
    learned, program = Learned.of(request.ranges), request.source().exported
    feeds = feeds_of(request)
    order = [spec.name for spec in request.golden.inputs]
    truth = [program_values(program, order, one) for one in feeds]
    tensors = _run(graph, feeds, request.scratch)
    return place(learned, nodes_of(graph), order, KINDS, {}, truth, tensors)


def _run(graph: Graph, feeds: list[dict[str, Array]], scratch: Path) -> list[dict[str, Array]]:
    """Every floating value of the graph."""
    import numpy as np
    import onnx

    probe = onnx.ModelProto()
    probe.CopyFrom(graph.model)
    names = [name for node in graph.graph.node for name in node.output if name]
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = plain_session(probe, scratch / "watched.onnx")
    results: list[dict[str, Any]] = [dict(zip(names, session.run(names, one), strict=True)) for one in feeds]
    return [{name: v for name, v in one.items() if np.asarray(v).dtype.kind == "f"} for one in results]


def nodes_of(graph: Graph) -> list[Node]:
    """The nodes with the values that change and are read as numbers."""
    changing = {*graph.inputs, *graph.producer}
    return [
        Node(node.op_type, tuple(name for name in node.input if name in changing), tuple(filter(None, node.output)))
        for node in graph.graph.node
    ]

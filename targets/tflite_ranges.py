"""Learned ranges on the tensors of a float32 TFLite file.

litert-torch names a tensor after the modules that it came from, and in a saved program each value has a module of its
own. onnx2tf keeps no such names, so that there structure and values decide.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from convert.errors import StageError
from convert.records import IoEntry
from convert.targets.base import BuildRequest
from convert.targets.learned import Kinds, Learned, Node, Placed, feeds_of, place, program_values
from convert.targets.ranges import Range
from convert.targets.tflite_measure import Watched
from convert.targets.tflite_named import Graph, read

_POINT = re.compile(r"Point_(q\d{3,}_\w+)")
KINDS = Kinds(
    operators={
        "ADD": ("add",),
        "AVERAGE_POOL_2D": ("avg_pool2d", "mean", "adaptive_avg_pool2d"),
        "CONCATENATION": ("cat",),
        "CONV_2D": ("conv2d",),
        "DEPTHWISE_CONV_2D": ("conv2d",),
        "FULLY_CONNECTED": ("linear",),
        "GELU": ("gelu",),
        "HARD_SWISH": ("hardswish",),
        "LOGISTIC": ("sigmoid",),
        "MAX_POOL_2D": ("max_pool2d",),
        "MEAN": ("mean", "adaptive_avg_pool2d"),
        "MUL": ("mul",),
        "RELU": ("relu",),
        "RELU6": ("relu6", "hardtanh"),
        "RELU_N1_TO_1": ("hardtanh",),
        "RESIZE_BILINEAR": ("upsample_bilinear2d",),
        "RESIZE_NEAREST_NEIGHBOR": ("upsample_nearest2d",),
        "SOFTMAX": ("softmax", "_softmax"),
        "SUB": ("sub",),
        "TANH": ("tanh",),
    },
    movers=frozenset(
        (
            "BROADCAST_TO",
            "DEPTH_TO_SPACE",
            "EXPAND_DIMS",
            "GATHER",
            "PAD",
            "RESHAPE",
            "SLICE",
            "SPLIT",
            "SPLIT_V",
            "SQUEEZE",
            "STRIDED_SLICE",
            "TRANSPOSE",
            "UNPACK",
        )
    ),
)


def learned_ranges(request: BuildRequest, source: Path | bytes) -> tuple[dict[str, Range], tuple[str, ...]]:
    """Tensor name -> range for the float file ``source``, from the ranges in ``request``; and a note for the report.

    Raises:
        StageError: a range may belong to either of two tensors, or the program that they were saved with is not there.
    """
    placed = place_on(request, source)
    return placed.ranges, (placed.note,)


def place_on(request: BuildRequest, source: Path | bytes) -> Placed:
    """As :func:`learned_ranges`, with how each tensor was found."""
    if request.ranges is None or request.source is None or request.base is None:
        raise StageError("there are no learned ranges; save the trained module with convert.qat.save")
    learned, program = Learned.of(request.ranges), request.source().exported
    feeds = feeds_of(request)
    order = [spec.name for spec in request.golden.inputs]
    truth = [program_values(program, order, one) for one in feeds]
    watched, tensors = Watched(source, request.base.io), []
    for one in feeds:
        watched.run(one)
        tensors.append({name: value.copy() for name, value in watched.values().items()})
    graph = read(source)
    names = {tensor: _POINT.findall(tensor) for tensor in tensors[0]}
    return place(learned, nodes_of(graph), _inputs(request.base.io, order), KINDS, _sorted(names), truth, tensors)


def _sorted(names: dict[str, list[str]]) -> dict[str, list[str]]:
    """A fused tensor speaks of several values; what it holds is the one that is computed last."""
    return {tensor: sorted(set(found)) for tensor, found in names.items() if found}


def _inputs(io: Sequence[IoEntry], order: Sequence[str]) -> list[str]:
    by_source = {entry.source: entry.name for entry in io if entry.role == "input"}
    return [by_source[name] for name in order]


def nodes_of(graph: Graph) -> list[Node]:
    """The operators of the main graph with the tensors that change."""
    return [
        Node(
            operator.kind,
            tuple(tensor.name for tensor in operator.inputs if tensor.floating and not tensor.constant),
            tuple(tensor.name for tensor in operator.outputs if tensor.floating),
        )
        for operator in graph.operators()
        if operator.subgraph == 0
    ]

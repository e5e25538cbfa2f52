"""The nodes of an ONNX file, those of branches, loops and functions included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def nodes_of_file(path: str) -> Iterator[Any]:
    """Every node of the file, without its weights."""
    import onnx

    yield from nodes_of_model(onnx.load(path, load_external_data=False))


def nodes_of_model(model: Any) -> Iterator[Any]:
    """Every node of an ``onnx.ModelProto``."""
    yield from _walk(model.graph.node)
    for function in model.functions:
        yield from _walk(function.node)


def qualified(node: Any) -> str:
    """The operator of a node, with its domain where that is not ONNX's own: ``Conv``, ``com.microsoft.Gelu``."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def _walk(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in ((attribute.g,) if attribute.HasField("g") else ()) + tuple(attribute.graphs):
                yield from _walk(graph.node)

"""Take out of a TFLite file what nothing uses any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def compact(model: Any) -> Any:
    """Remove unused tensors and buffers from ``model``, a ``ModelT``, in place; gives it."""
    for index, graph in enumerate(model.subgraphs):
        signatures = [one for one in model.signatureDefs or () if one.subgraphIndex == index]
        _compact_tensors(graph, signatures)
    _compact_buffers(model)
    return model


def _compact_tensors(graph: Any, signatures: Iterable[Any]) -> None:
    used = {*graph.inputs, *graph.outputs}
    for operator in graph.operators:
        used |= {*operator.inputs, *operator.outputs, *(operator.intermediates or ())}
    kept = sorted(tensor for tensor in used if tensor >= 0)
    # An input that an operator does without is -1.
    places = {-1: -1} | {tensor: at for at, tensor in enumerate(kept)}
    graph.tensors = [graph.tensors[tensor] for tensor in kept]
    graph.inputs, graph.outputs = [places[i] for i in graph.inputs], [places[i] for i in graph.outputs]
    for operator in graph.operators:
        operator.inputs, operator.outputs = [places[i] for i in operator.inputs], [places[i] for i in operator.outputs]
        if operator.intermediates:
            operator.intermediates = [places[i] for i in operator.intermediates]
    for signature in signatures:
        for entry in (*(signature.inputs or ()), *(signature.outputs or ())):
            entry.tensorIndex = places[entry.tensorIndex]


def _compact_buffers(model: Any) -> None:
    holders = [tensor for graph in model.subgraphs for tensor in graph.tensors] + list(model.metadata or ())
    # The first buffer is empty by convention and stands for no data.
    kept = sorted({0, *(int(holder.buffer) for holder in holders)})
    places = {buffer: at for at, buffer in enumerate(kept)}
    model.buffers = [model.buffers[buffer] for buffer in kept]
    for holder in holders:
        holder.buffer = places[int(holder.buffer)]

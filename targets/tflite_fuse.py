"""Put a clamp of its own into the layer before it, which the quantizer otherwise leaves in float.

onnx2tf writes Conv and ReLU6 apart, often with a TRANSPOSE between; the kernels of both clamp in the same way, so that
nothing changes but the count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from convert.targets.tflite_named import Graph, Operator, read, write

#: By the names that both operators and the activations of layers have in the schema.
_CLAMPS = frozenset({"RELU", "RELU6", "RELU_N1_TO_1"})
#: Put values elsewhere, so that it is the same to clamp before or after them.
_MOVERS = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE"})
_LAYERS = frozenset({"ADD", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MUL", "SUB"})


def fused(source: Path, folder: Path) -> Path:
    """The file ``source``, or one in ``folder`` that computes the same with fewer operators.

    Args:
        source: a float file.
        folder: where a changed file is put.
    """
    graph = read(source)
    if not _fuse(graph):
        return source
    file = folder / "fused.tflite"
    file.write_bytes(write(graph))
    return file


def _fuse(graph: Graph) -> int:
    """Change the main subgraph; gives the number of clamps that went."""
    from ai_edge_litert.schema_py_generated import ActivationFunctionType

    subgraph = graph.model.subgraphs[0]
    pairs = list(zip((one for one in graph.operators() if one.subgraph == 0), subgraph.operators, strict=True))
    readers = Counter(tensor.index for operator, _ in pairs for tensor in operator.inputs)
    makers = {tensor.index: (operator, raw) for operator, raw in pairs for tensor in operator.outputs}
    gone = []
    for clamp, raw in pairs:
        chain = _chain(graph, clamp, makers, readers) if clamp.kind in _CLAMPS else []
        if not chain:
            continue
        chain[-1].builtinOptions.fusedActivationFunction = getattr(ActivationFunctionType, clamp.kind)
        chain[0].outputs = raw.outputs
        gone.append(raw)
    subgraph.operators = [raw for _, raw in pairs if not any(raw is other for other in gone)]
    return len(gone)


def _chain(
    graph: Graph, clamp: Operator, makers: Mapping[int, tuple[Operator, Any]], readers: Counter[int]
) -> list[Any]:
    """From the clamp back to the layer that can clamp in its place; empty where somebody else wants a value between."""
    chain: list[Any] = []
    place = clamp.inputs[0].index
    while place in makers and readers[place] == 1 and place not in graph.outputs():
        operator, raw = makers[place]
        chain.append(raw)
        if operator.kind in _LAYERS:
            return chain if raw.builtinOptions.fusedActivationFunction == 0 else []
        if operator.kind not in _MOVERS:
            return []
        place = operator.inputs[0].index
    return []

"""A TFLite file as tensors and operators with names, for what must be read from it or changed in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
FLOATS = ("FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16")


@dataclass(frozen=True)
class Tensor:
    """One tensor of one subgraph.

    Attributes:
        type: as the schema calls it, such as ``INT8``.
        constant: its values stand in the file.
    """

    index: int
    name: str
    type: str
    constant: bool

    @property
    def floating(self) -> bool:
        """Whether it holds floating numbers."""
        return self.type in FLOATS


@dataclass(frozen=True)
class Operator:
    """One operator with its tensors; optional inputs that are left out are not in ``inputs``.

    Attributes:
        kind: as the schema calls it, such as ``CONV_2D``.
        name: that of its first output (of its first input where it has none); no two tensors of a file share one.
    """

    subgraph: int
    kind: str
    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


class Graph:
    """A file, read."""

    def __init__(self, model: Any) -> None:
        """Look at ``model``, which :func:`read` gave."""
        self.model = model

    def operators(self) -> Iterator[Operator]:
        """All operators of all subgraphs in their order."""
        from ai_edge_litert.tools import flatbuffer_utils

        for number, subgraph in enumerate(self.model.subgraphs):
            for raw in subgraph.operators or ():
                inputs = tuple(self.tensor(number, index) for index in _list(raw.inputs) if index >= 0)
                outputs = tuple(self.tensor(number, index) for index in _list(raw.outputs) if index >= 0)
                kind = flatbuffer_utils.opcode_to_name(self.model, raw.opcodeIndex)
                name = next((tensor.name for tensor in (*outputs, *inputs)), kind)
                yield Operator(number, kind, name, inputs, outputs)

    def tensor(self, subgraph: int, index: int) -> Tensor:
        """One tensor by its place."""
        raw = self.model.subgraphs[subgraph].tensors[index]
        constant = self.model.buffers[raw.buffer].data is not None
        return Tensor(int(index), (raw.name or b"").decode(), _types()[raw.type], constant)

    def values(self, subgraph: int, tensor: Tensor) -> Array:
        """The values of a constant."""
        raw = self.model.subgraphs[subgraph].tensors[tensor.index]
        data = np.frombuffer(self.model.buffers[raw.buffer].data, np.dtype(tensor.type.lower()))
        return data.reshape(_list(raw.shape))

    def inputs(self, subgraph: int = 0) -> frozenset[int]:
        """Places of the tensors that the subgraph is given."""
        return frozenset(_list(self.model.subgraphs[subgraph].inputs))

    def outputs(self, subgraph: int = 0) -> frozenset[int]:
        """Places of the tensors that the subgraph gives."""
        return frozenset(_list(self.model.subgraphs[subgraph].outputs))


def read(source: Path | bytes) -> Graph:
    """Read a file, or its content."""
    from ai_edge_litert.tools import flatbuffer_utils

    content = source.read_bytes() if isinstance(source, Path) else source
    return Graph(flatbuffer_utils.read_model_from_bytearray(bytearray(content)))


def write(graph: Graph) -> bytes:
    """The content of a file with what ``graph`` has become."""
    from ai_edge_litert.tools import flatbuffer_utils

    for buffer in graph.model.buffers:
        if buffer.data is not None:
            buffer.data = np.frombuffer(buffer.data, np.uint8)  # anything else is packed byte by byte
    return bytes(flatbuffer_utils.convert_object_to_bytearray(graph.model))


def _list(values: Any) -> list[int]:
    return [] if values is None else [int(value) for value in values]


@cache
def _types() -> dict[int, str]:
    from ai_edge_litert.schema_py_generated import TensorType

    return {value: name for name, value in vars(TensorType).items() if isinstance(value, int)}

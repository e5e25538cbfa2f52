"""Tiny float TFLite files, written operator by operator: no converter is needed, and every value is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from convert.golden_io import CaseData, save_case
from convert.records import Artifact, Case, Dim, Golden, InputSpec, IoEntry, Kind, OutputSpec
from convert.targets.base import BuildRequest

Array = np.ndarray[Any, Any]


class Writer:
    """Puts a file together. ``None`` in a shape is the dynamic batch, written as 1."""

    def __init__(self) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self._schema = schema
        self._buffers, self._tensors, self._operators, self._codes = [schema.BufferT()], [], [], []  # type: ignore[var-annotated]
        self._places: dict[str, int] = {}

    def tensor(self, name: str, shape: Sequence[int | None], dtype: str = "float32") -> str:
        """A tensor that is computed."""
        made = self._schema.TensorT()
        made.name, made.buffer = name.encode(), 0
        made.type = getattr(self._schema.TensorType, dtype.upper())
        made.shape = [1 if size is None else size for size in shape]
        if None in shape:
            made.shapeSignature = [-1 if size is None else size for size in shape]
        self._places[name] = len(self._tensors)
        self._tensors.append(made)
        return name

    def constant(self, name: str, value: Any, dtype: str = "float32") -> str:
        """A tensor whose values stand in the file."""
        array = np.asarray(value, dtype)
        self.tensor(name, array.shape, dtype)
        buffer = self._schema.BufferT()
        buffer.data = np.frombuffer(array.tobytes(), np.uint8)
        self._buffers.append(buffer)
        self._tensors[-1].buffer = len(self._buffers) - 1
        return name

    def operator(self, kind: str, inputs: Sequence[str], output: str, options: str = "", **values: Any) -> str:
        """One operator; ``options`` is its options' type in the schema, filled with ``values``."""
        builtin = getattr(self._schema.BuiltinOperator, kind)
        if builtin not in self._codes:
            self._codes.append(builtin)
        made = self._schema.OperatorT()
        made.opcodeIndex = self._codes.index(builtin)
        made.inputs, made.outputs = [self._places[name] for name in inputs], [self._places[output]]
        if options:
            made.builtinOptionsType = getattr(self._schema.BuiltinOptions, options)
            made.builtinOptions = getattr(self._schema, f"{options}T")()
            for name, value in values.items():
                setattr(made.builtinOptions, name, value)
        self._operators.append(made)
        return output

    def dense(self, source: str, name: str, weights: Array, bias: Array, relu: bool = False) -> str:
        """``source @ weights.T + bias`` into a tensor called ``name``."""
        self.tensor(name, (None, len(weights)))
        constants = (self.constant(f"{name}/w", weights), self.constant(f"{name}/b", bias))
        return self.operator(
            "FULLY_CONNECTED", (source, *constants), name, "FullyConnectedOptions", fusedActivationFunction=int(relu)
        )

    def content(self, inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
        """The file."""
        from ai_edge_litert.tools import flatbuffer_utils

        schema = self._schema
        subgraph, model = schema.SubGraphT(), schema.ModelT()
        subgraph.tensors, subgraph.operators = self._tensors, self._operators
        subgraph.inputs, subgraph.outputs = ([self._places[name] for name in names] for names in (inputs, outputs))
        subgraph.name = b"main"
        model.version, model.description, model.subgraphs, model.buffers = 3, b"test", [subgraph], self._buffers
        model.operatorCodes = []
        for builtin in self._codes:
            code = schema.OperatorCodeT()
            code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, min(builtin, 127), 1
            model.operatorCodes.append(code)
        return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


@dataclass
class Data:
    """Calibration data from a list of batches of the input ``x``."""

    batches: Iterable[Any]
    key: str = "test"
    random: bool = False
    read: int = field(default=0)

    def __iter__(self) -> Any:
        for batch in self.batches:
            self.read += 1
            yield {"x": np.asarray(batch, np.float32)}


def request(place: Path, content: bytes, columns: int, results: int, data: Data | None, **more: Any) -> BuildRequest:
    """A request to quantize the float file ``content``: ``x`` [N, columns] to ``y`` [N, results], N = 1..2..4."""
    for name in ("base", "golden", "made", "scratch"):
        (place / name).mkdir(parents=True, exist_ok=True)
    (place / "base" / "model.tflite").write_bytes(content)
    io = (
        IoEntry("x", "input", "x", "float32", (-1, columns), source_dtype="float32"),
        IoEntry("y", "output", "y", "float32", (-1, results), source_dtype="float32"),
    )
    cases = []
    for name, size in (("opt-draw0", 2), ("min-draw0", 1), ("max-draw0", 4)):
        feeds = {"x": np.random.default_rng(size).normal(size=(size, columns)).astype(np.float32)}
        save_case(place / "golden" / f"{name}.npz", CaseData(feeds, {"y": np.zeros((size, results), np.float32)}, {}))
        cases.append(Case(name, "draw", {"N": size}, 0, f"{name}.npz"))
    golden = Golden(
        Kind.EXPORTED,
        "net",
        1,
        4,
        (InputSpec("x", "float32", ("N", columns)),),
        (Dim("N", 1, 2, 4),),
        (OutputSpec("y", "float32", ("N", results)),),
        tuple(cases),
        "float64",
    )
    base = Artifact("tflite", "float32", "by hand", ("model.tflite",), io)
    given: dict[str, Any] = {"precision": "int8", "route": "ai-edge-quantizer"} | more
    return BuildRequest(
        target="tflite",
        golden=golden,
        golden_folder=place / "golden",
        folder=place / "made",
        scratch=place / "scratch",
        base=base,
        base_folder=place / "base",
        calibration=data,
        **given,
    )


def outlier_net(seed: int = 0) -> bytes:
    """Four dense layers; one channel of the second is a thousand times larger than the others, and the third undoes it.

    In integers of 8 bits the other channels of the second layer are all but lost.
    """
    draw = np.random.default_rng(seed)
    writer = Writer()
    writer.tensor("x", (None, 8))
    sizes = {"a": (16, 8), "b": (16, 16), "c": (16, 16), "y": (4, 16)}
    weights = {name: draw.normal(size=size) / np.sqrt(size[1]) for name, size in sizes.items()}
    weights["b"][0] *= 3000.0
    weights["c"][:, 0] /= 3000.0
    source = "x"
    for name, value in weights.items():
        bias = draw.normal(size=len(value)) * 0.1
        source = writer.dense(source, name, value, bias, relu=name != "y")
    return writer.content(["x"], ["y"])

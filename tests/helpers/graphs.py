"""Small ONNX graphs, and build requests about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from convert.golden_io import CaseData, save_case
from convert.records import Artifact, Case, Dim, Golden, InputSpec, Kind, OutputSpec
from convert.targets.base import BuildRequest

Node = tuple[Any, ...]


def make(
    nodes: Sequence[Node],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    constants: Mapping[str, Any],
    opset: int = 17,
) -> Any:
    """A model of ``(kind, inputs, output[, attributes])`` nodes named after their outputs; everything is float32."""
    from onnx import TensorProto, helper, numpy_helper

    made = [
        helper.make_node(kind, names.split(), [output], output, **(more[0] if more else {}))
        for kind, names, output, *more in nodes
    ]
    graph = helper.make_graph(
        made,
        "test",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def run(model: Any, feeds: Mapping[str, Any], *, optimised: bool = True) -> list[Any]:
    """What onnxruntime gives for a model in memory or a file."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    given = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = ort.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


@dataclass(frozen=True)
class Batches:
    """Calibration data in memory."""

    batches: Sequence[dict[str, Any]]
    key: str = "key"
    random: bool = False
    read: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Every batch, and note how many were read."""
        for batch in self.batches:
            self.read.append(1)
            yield batch


def request(place: Path, model: Any, target: str, precision: str, route: str, **more: Any) -> BuildRequest:
    """A request whose base and exported graph are ``model``, with one sample among its cases."""
    import onnx

    folder = place / f"{target}-{precision}-{route}-{len(list(place.iterdir()))}"
    for name in ("base", "golden", "out", "scratch"):
        (folder / name).mkdir(parents=True)
    onnx.save(model, str(folder / "base" / "model.onnx"))
    feeds = _sample(model)
    names = [value.name for value in model.graph.output]
    results = dict(zip(names, run(model, feeds), strict=True))
    save_case(folder / "golden" / "sample0.npz", CaseData(feeds, results, {}))
    golden = Golden(
        Kind.ONNX,
        "test",
        1,
        4,
        tuple(InputSpec(name, str(v.dtype), ("N", *v.shape[1:])) for name, v in feeds.items()),
        (Dim("N", 1, len(next(iter(feeds.values()))), 8),),
        tuple(OutputSpec(name, str(v.dtype), ("N", *v.shape[1:])) for name, v in results.items()),
        (Case("sample0", "sample", {"N": 4}, None, "sample0.npz"),),
        "float64",
    )
    more = {"calibration": Batches([feeds])} | more
    return BuildRequest(
        target,
        precision,
        route,
        golden,
        folder / "golden",
        folder / "out",
        folder / "scratch",
        onnx=folder / "base" / "model.onnx",
        base=Artifact("onnx", "float32", "export", ("model.onnx",), ()),
        base_folder=folder / "base",
        **more,
    )


def _sample(model: Any) -> dict[str, Any]:
    random = np.random.default_rng(0)
    shapes = {v.name: [d.dim_value or 4 for d in v.type.tensor_type.shape.dim] for v in model.graph.input}
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def residual(width: int = 8) -> Any:
    """Convolutions with a residual sum, a mean over space and a matrix product: float32[N,3,6,6] to float32[N,5]."""
    random = np.random.default_rng(1)
    constants = {
        name: (random.normal(size=size) / np.sqrt(np.prod(size[1:]))).astype(np.float32)
        for name, size in (("w1", (width, 3, 3, 3)), ("w2", (width, width, 3, 3)), ("w3", (5, width)))
    } | {"b1": random.normal(size=width).astype(np.float32), "b3": random.normal(size=5).astype(np.float32)}
    same = {"pads": [1, 1, 1, 1]}
    nodes = (
        ("Conv", "x w1 b1", "c1", same),
        ("Relu", "c1", "r1"),
        ("Conv", "r1 w2", "c2", same),
        ("Add", "r1 c2", "sum"),
        ("ReduceMean", "sum", "mean", {"axes": [2, 3], "keepdims": 0}),
        ("Gemm", "mean w3 b3", "y", {"transB": 1}),
    )
    return make(nodes, {"x": ["N", 3, 6, 6]}, ["y"], constants)

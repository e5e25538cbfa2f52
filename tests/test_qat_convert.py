"""From a trained module to integer files: the learned ranges at their places, and what the files then compute."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from helpers.qat_nets import NETWORKS, SHAPE, flat, learned, request_for, run_tflite, tflite_float, trained_like

import convert.qat
from convert.errors import StageError
from convert.records import Operators
from convert.targets import onnx_ranges, tflite_ranges
from convert.targets.base import BuildRequest
from convert.targets.learned import Kinds, Learned, Node, place
from convert.targets.onnx_quant import prepared, with_ranges
from convert.targets.onnx_quant_plan import CPU
from convert.targets.tflite_operators import read_operators
from convert.targets.tflite_quant import Prepared, quantize

IMAGES = 20
#: Of the output's own steps: the kernels of ADD, MEAN, MUL and softmax round once more than the module does.
MOST_STEPS = 2


@dataclass(frozen=True)
class Trained:
    """A trained module, its program, and what a target gets for it."""

    qat: Any
    request: BuildRequest

    def steps_off(self, found: list[Any], images: torch.Tensor) -> list[float]:
        """Largest distance of each output from the module's, in steps of that output."""
        with torch.no_grad():
            wanted = flat(self.qat(images))
        scales = [float(self.qat.qat_quantizer(name).scale()[0]) for name in self.qat.qat_outputs]
        pairs = zip(wanted, found, scales, strict=True)
        return [float(np.abs(one.numpy() - other).max()) / scale for one, other, scale in pairs]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trained]:
    """Make each network once."""
    made: dict[str, Trained] = {}

    def get(name: str) -> Trained:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            qat = learned(trained_like(NETWORKS[name]))
            convert.qat.save(qat, folder / "model.pt2")
            made[name] = Trained(qat, request_for(folder, folder / "model.pt2"))
        return made[name]

    return get


def images() -> torch.Tensor:
    torch.manual_seed(3)
    return torch.randn(IMAGES, *SHAPE[1:])


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in ("plain", "residual") else name for name in NETWORKS],
)
@pytest.mark.filterwarnings("ignore")  # of the memory that ai-edge-quantizer's interpreters take
def test_the_tflite_file_is_all_integer_and_computes_what_was_trained(
    trained: Callable[[str], Trained], name: str, tmp_path: Path
) -> None:
    one, x = trained(name), images()
    file = tmp_path / "float.tflite"
    request = tflite_float(one.request, file)
    placed = tflite_ranges.place_on(request, file)
    assert placed.unknown == []
    assert "value" not in placed.by.values()
    content = quantize(Prepared(file.read_bytes(), placed.ranges, ()), 8)
    operators = read_operators(content)
    assert operators == Operators(operators.integer, {})
    off = one.steps_off(run_tflite(content, x.numpy()), x)
    assert max(off) <= MOST_STEPS + 0.01
    # The default calibration of the same file, on as many images as the ranges were learned from.
    default = one.steps_off(run_tflite(calibrated(file), x.numpy()), x)
    assert max(default) > 2 * max(off)
    by_structure = without_names(request, file)
    assert by_structure.ranges == placed.ranges
    assert set(by_structure.by.values()) <= {"name", "structure", "value"}


def calibrated(file: Path) -> bytes:
    """int8 with the ranges that ai-edge-quantizer finds itself."""
    from ai_edge_quantizer import quantizer, recipe

    torch.manual_seed(1)
    batches = [{"args_0": torch.randn(SHAPE).numpy()} for _ in range(20)]
    found = quantizer.Quantizer(str(file), recipe.static_wi8_ai8()).calibrate({"serving_default": batches})
    ranges = {name: (float(one["min"].min()), float(one["max"].max())) for name, one in found.items() if "min" in one}
    return quantize(Prepared(file.read_bytes(), ranges, ()), 8)


def without_names(request: BuildRequest, file: Path) -> Any:
    """Place as for a converter that keeps no names."""
    hidden, tflite_ranges._POINT = tflite_ranges._POINT, re.compile("(?!)")
    try:
        return tflite_ranges.place_on(request, file)
    finally:
        tflite_ranges._POINT = hidden


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.filterwarnings("ignore")  # of torch's exporter
def test_the_qdq_graph_computes_what_was_trained(trained: Callable[[str], Trained], name: str, tmp_path: Path) -> None:
    one, x = trained(name), images()
    file = tmp_path / "float.onnx"
    names = [spec.name for spec in one.request.golden.outputs]
    assert one.request.source is not None
    program = one.request.source().exported
    torch.onnx.export(program, (), str(file), dynamo=True, verbose=False, input_names=["x"], output_names=names)
    graph = prepared(onnx.load(str(file)))
    placed = onnx_ranges.place_on(one.request, graph)
    assert placed.unknown == []
    onnx.save(with_ranges(graph, CPU, placed.ranges).model, str(tmp_path / "int8.onnx"))
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(str(tmp_path / "int8.onnx"), options, ["CPUExecutionProvider"])
    rows = [session.run(None, {"x": image[None].numpy()}) for image in x]
    off = one.steps_off([np.concatenate(row) for row in zip(*rows, strict=True)], x)
    assert max(off) <= MOST_STEPS + 0.01


POINT = {"low": 0.0, "high": 1.0, "operator": "", "reads": [], "moved": False, "inside": ""}


def graph_of(**points: dict[str, Any]) -> Learned:
    filled = {name: POINT | point for name, point in points.items()}
    return Learned.of({"inputs": ["x"], "outputs": [], "points": filled})


KINDS = Kinds(operators={"ADD": ("add",), "RELU": ("relu",)}, movers=("RESHAPE",))
X = np.array([[1.0, -2.0], [3.0, 4.0]])


def put(learned: Learned, nodes: list[Node], truth: Mapping[str, Any], tensors: Mapping[str, Any]) -> Any:
    return place(learned, nodes, ["in"], KINDS, {}, [truth], [tensors])


def test_a_value_with_two_possible_ranges_is_refused() -> None:
    points = graph_of(x={}, a={"high": 2.0, "operator": "gelu"}, b={"high": 3.0, "operator": "gelu"})
    with pytest.raises(StageError, match="tensor t holds the same values as a and b, whose ranges differ") as caught:
        put(points, [Node("ODD", ("in",), ("t",))], {"x": X, "a": X + 1, "b": X + 1}, {"in": X, "t": X + 1})
    assert caught.value.advice == "give real inputs with --samples, on which the two differ"


def test_structure_decides_between_equal_values() -> None:
    points = graph_of(
        x={},
        a={"high": 2.0, "operator": "relu", "reads": ["x"]},
        b={"high": 3.0, "operator": "add", "reads": ["x", "x"]},
    )
    found = put(points, [Node("ADD", ("in", "in"), ("t",))], {"x": X, "a": X + 1, "b": X + 1}, {"in": X, "t": X + 1})
    assert (found.ranges["t"], found.by["t"]) == ((0.0, 3.0), "structure")


def test_structure_is_not_believed_against_the_values() -> None:
    points = graph_of(x={}, a={"high": 2.0, "operator": "relu", "reads": ["x"]})
    found = put(points, [Node("RELU", ("in",), ("t",))], {"x": X, "a": X + 1}, {"in": X, "t": X + 2})
    assert (found.unknown, "t" in found.ranges) == (["t"], False)


def test_values_are_told_apart_in_any_layout_and_moves_keep_the_range() -> None:
    points = graph_of(x={}, a={"high": 2.0, "operator": "gelu"})
    nodes = [Node("ODD", ("in",), ("t",)), Node("RESHAPE", ("t",), ("u",))]
    found = put(points, nodes, {"x": X, "a": X + 1}, {"in": X, "t": (X + 1).T, "u": (X + 1).ravel()})
    assert found.ranges == {"in": (0.0, 1.0), "t": (0.0, 2.0), "u": (0.0, 2.0)}
    assert found.note == "ranges learned in training, placed on 3 tensors (1 by name, 0 by structure, 2 by value)"


def test_without_ranges_there_is_one_sentence(trained: Callable[[str], Trained], tmp_path: Path) -> None:
    request = replace(trained("plain").request, ranges=None)
    with pytest.raises(
        StageError, match=r"there are no learned ranges; save the trained module with convert\.qat\.save"
    ):
        tflite_ranges.learned_ranges(request, tmp_path / "x.tflite")

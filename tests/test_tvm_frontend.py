"""What TVM's ONNX front end lacks: recurrent layers of every kind, and Resize to sizes known at run time."""

from __future__ import annotations

import json
import subprocess
from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers.command import ROOT, importing, python_of

from convert.errors import StageError
from convert.targets.tvm_recurrent import GATES, Cell, cells

onnx = pytest.importorskip("onnx")

RUN = ROOT / "tests" / "helpers" / "tvm_run.py"
WIDTH, HIDDEN = 3, 5
SIZES = ((4, 2), (1, 1), (7, 3))
DIRECTIONS = ("forward", "reverse", "bidirectional")
#: Name -> operator, attributes, whether sequences have lengths, states are given and there is a bias.
LAYERS: dict[str, tuple[str, dict[str, Any], bool, bool, bool]] = {
    f"{kind}-{direction}-{'lengths' if lengths else 'whole'}": (kind, {"direction": direction}, lengths, lengths, True)
    for kind, direction, lengths in product(GATES, DIRECTIONS, (False, True))
} | {
    "GRU-torch": ("GRU", {"linear_before_reset": 1}, False, True, True),
    "GRU-torch-both": ("GRU", {"linear_before_reset": 1, "direction": "bidirectional"}, True, False, True),
    "RNN-relu": ("RNN", {"activations": ["Relu"]}, False, True, True),
    "LSTM-bare": ("LSTM", {}, False, False, False),
    "refused-LSTM-clip": ("LSTM", {"clip": 1.0}, False, False, True),
}
RESIZES: dict[str, tuple[str, dict[str, Any]]] = {
    "resize-size": ("sizes", {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}),
    "resize-factor": (
        "scales",
        {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"},
    ),
}


def layer(kind: str, attributes: dict[str, Any], lengths: bool, states: bool, bias: bool) -> tuple[Any, list[Any]]:
    """A graph of one recurrent node, and feeds at several sizes."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    ways = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[kind] * HIDDEN
    shapes = {"w": (ways, rows, WIDTH), "r": (ways, rows, HIDDEN)} | ({"b": (ways, 2 * rows)} if bias else {})
    weights = {name: (rng.normal(size=shape) * 0.5).astype(np.float32) for name, shape in shapes.items()}
    given = ["h", "c"][: 2 if kind == "LSTM" else 1] if states else []
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["T", "N", WIDTH])]
    inputs += [helper.make_tensor_value_info("lengths", TensorProto.INT32, ["N"])] if lengths else []
    inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, [ways, "N", HIDDEN]) for name in given]
    names = ["x", "w", "r", "b" if bias else "", "lengths" if lengths else "", *given]
    results = ["y", "last", "memory"][: 3 if kind == "LSTM" else 2]
    node = helper.make_node(kind, names, results, hidden_size=HIDDEN, **attributes)
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results]
    stored = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph([node], kind, inputs, outputs, stored)
    feeds = []
    for steps, batch in SIZES:
        one: dict[str, Any] = {"x": rng.normal(size=(steps, batch, WIDTH)).astype(np.float32)}
        if lengths:
            one["lengths"] = np.asarray([max(1, steps - 2 * place) for place in range(batch)], np.int32)
        feeds.append(one | {name: rng.normal(size=(ways, batch, HIDDEN)).astype(np.float32) for name in given})
    return graph, feeds


def resize(how: str, attributes: dict[str, Any]) -> tuple[Any, list[Any]]:
    """To the size of another input, or by a factor of 2 and 3."""
    from onnx import TensorProto, helper, numpy_helper

    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2, "H", "W"])]
    nodes, stored = [], []
    if how == "scales":
        stored.append(numpy_helper.from_array(np.asarray([1, 1, 2, 3], np.float32), "scales"))
        names = ["x", "", "scales"]
    else:
        inputs.append(helper.make_tensor_value_info("like", TensorProto.FLOAT, ["N", 1, "P", "Q"]))
        nodes = [
            helper.make_node("Shape", ["x"], ["front"], start=0, end=2),
            helper.make_node("Shape", ["like"], ["back"], start=2, end=4),
            helper.make_node("Concat", ["front", "back"], ["size"], axis=0),
        ]
        names = ["x", "", "", "size"]
    nodes.append(helper.make_node("Resize", names, ["y"], **attributes))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    rng = np.random.default_rng(1)
    feeds = []
    for batch, height, width in ((2, 6, 5), (1, 3, 9)):
        one = {"x": rng.normal(size=(batch, 2, height, width)).astype(np.float32)}
        like = {"like": np.zeros((batch, 1, height + 4, 2 * width - 3), np.float32)}
        feeds.append(one | (like if how == "sizes" else {}))
    return helper.make_graph(nodes, how, inputs, outputs, stored), feeds


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    import onnxruntime

    folder = tmp_path_factory.mktemp("tvm")
    graphs = {name: layer(*one) for name, one in LAYERS.items()} | {name: resize(*one) for name, one in RESIZES.items()}
    for name, (graph, feeds) in graphs.items():
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
        onnx.save(model, str(folder / f"{name}.onnx"))
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        arrays: dict[str, Any] = {}
        for case, one in enumerate(feeds):
            results = session.run(None, one)
            arrays |= {f"{case}/in/{key}": value for key, value in one.items()}
            arrays |= {f"{case}/out/{index}": value for index, value in enumerate(results)}
        np.savez(folder / f"{name}.npz", **arrays)
    done = subprocess.run(
        [python_of("tvm"), str(RUN), str(folder)], capture_output=True, text=True, check=False, env=importing()
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.toolkit
@pytest.mark.parametrize("name", [*(name for name in LAYERS if not name.startswith("refused")), *RESIZES])
def test_right_at_every_size(errors: dict[str, Any], name: str) -> None:
    assert errors[name] < 1e-5


@pytest.mark.toolkit
def test_what_no_exporter_of_torch_writes_is_refused(errors: dict[str, Any]) -> None:
    assert errors["refused-LSTM-clip"] == "LSTM with clip is not known here; the settings of torch's layers are"


def test_cells_of_a_node() -> None:
    both = {"direction": b"bidirectional", "hidden_size": 4, "linear_before_reset": 1}
    assert cells("GRU", both) == (
        Cell("GRU", 4, False, linear_before_reset=True),
        Cell("GRU", 4, True, linear_before_reset=True),
    )
    assert cells("RNN", {"hidden_size": 4, "activations": (b"Relu",), "direction": b"reverse"}) == (
        Cell("RNN", 4, True, relu=True),
    )
    with pytest.raises(StageError, match="LSTM with input_forget, activations is not known here"):
        cells("LSTM", {"hidden_size": 4, "input_forget": 1, "activations": (b"Relu",) * 3})

"""Naming what a module returns, and a module that both exporters can take."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convert.errors import StageError
from convert.models.flatten import FlatModule, flatten, name_outputs

pytest.importorskip("torch")
import torch

pytestmark = pytest.mark.filterwarnings("ignore")  # both exporters warn a lot
A, B, C = (np.full(2, value) for value in (1.0, 2.0, 3.0))


def named(value: Any) -> list[tuple[str, float]]:
    """Names and the first element of each tensor."""
    return [(name, float(item[0])) for name, item in flatten(value)]


@dataclasses.dataclass
class Record:
    """A structure as detection models return it."""

    boxes: Any
    scores: Any = None


class Output(OrderedDict[str, Any]):
    """Like the outputs of transformers: a mapping that is no plain dict."""


def test_names() -> None:
    pair = namedtuple("pair", ["left", "right"])
    assert named(A) == [("output", 1)]
    assert named((A, B)) == [("output_0", 1), ("output_1", 2)]
    assert named([A, None, B]) == [("output_0", 1), ("output_2", 2)]
    assert named({"logits": A, "hidden": (B, None, C)}) == [("logits", 1), ("hidden.0", 2), ("hidden.2", 3)]
    assert named((A, {"norm": B})) == [("output_0", 1), ("output_1.norm", 2)]
    assert named(pair(A, B)) == [("left", 1), ("right", 2)]
    assert named(Record([A, B])) == [("boxes.0", 1), ("boxes.1", 2)]
    assert named(Output(last=A)) == [("last", 1)]
    assert named({3: A}) == [("3", 1)]
    assert named({"a.b": A, "a": {"b": B}}) == [("a.b", 1), ("a.b_2", 2)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((A, 3), "the model's output output_1 is a int (3) and no tensor"),
        ({"a": {"name": "cat"}}, "the model's output a.name is a str (cat) and no tensor"),
        (2.5, "the model's output output is a float (2.5) and no tensor"),
        ((None, []), "the model returns no tensor"),
    ],
)
def test_what_cannot_be_flattened(value: Any, text: str) -> None:
    with pytest.raises(StageError) as caught:
        flatten(value)
    assert caught.value.reason == text
    assert caught.value.advice


def test_outputs_named_like_inputs() -> None:
    assert name_outputs(["x", "y", "x_out"], ["x", "z"]) == ["x_out_out", "y", "x_out"]
    assert name_outputs(["output"], ["x"]) == ["output"]


class Many(torch.nn.Module):
    """Returns a nest with an input, one tensor twice and a None."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x: Any, y: Any) -> Any:
        z = self.fc(x) + y
        return {"z": z, "x": x, "again": z, "none": None, "nest": (y.relu(), [x])}


class Scripted(torch.nn.Module):
    """A branch on the data, which only scripting keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        z = self.fc(x) + y
        return {"z": z, "x": x, "again": z}


NAMES = {"module": ["z", "x_out", "again", "nest.0", "nest.1.0"], "script": ["z", "x_out", "again"]}
NAMES["program"] = NAMES["module"]


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The model as a live module, TorchScript and exported program, all loaded as the product does."""
    from convert.models.load import _live, load
    from convert.records import Kind, ModelRef

    folder = tmp_path_factory.mktemp("forms")
    torch.manual_seed(0)
    net = Many().eval()
    batch = torch.export.Dim("batch", min=1, max=16)
    example = (torch.ones(3, 4), torch.ones(3, 4))
    torch.export.save(torch.export.export(net, example, dynamic_shapes=({0: batch}, {0: batch})), folder / "p.pt2")
    torch.jit.save(torch.jit.script(Scripted().eval()), folder / "s.pt")
    return {
        "module": _live(net, ModelRef("m", Kind.FACTORY, "f")),
        "program": load(ModelRef(str(folder / "p.pt2"), Kind.EXPORTED)),
        "script": load(ModelRef(str(folder / "s.pt"), Kind.TORCHSCRIPT)),
    }


@pytest.mark.parametrize("dynamo", [False, True], ids=["torchscript", "dynamo"])
@pytest.mark.parametrize("form", ["module", "program", "script"])
def test_every_form_passes_both_exporters_with_every_output(
    forms: dict[str, Any], form: str, dynamo: bool, tmp_path: Path
) -> None:
    ort = pytest.importorskip("onnxruntime")
    from convert.models.run import plan_call, run_source
    from convert.models.scripted import for_export, for_trace

    loaded = forms[form]
    plan = plan_call(loaded, ("x", "y"))
    example = (torch.rand(3, 4), torch.rand(3, 4))
    path, names = str(tmp_path / "m.onnx"), NAMES[form]
    if dynamo:
        batch = torch.export.Dim("N", min=1, max=16)
        options: dict[str, Any] = {"dynamic_shapes": (({0: batch}, {0: batch}),), "verbose": False}
        module = for_export(loaded, plan, example)
    else:
        options = {"dynamic_axes": {name: {0: "N"} for name in ("x", "y", *names)}, "opset_version": 17}
        module = for_trace(loaded, plan, example)
    torch.onnx.export(module, example, path, dynamo=dynamo, input_names=["x", "y"], output_names=names, **options)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [item.name for item in session.get_outputs()] == names
    for rows in (1, 5):
        draw = np.random.default_rng(rows)
        feeds = {name: draw.standard_normal((rows, 4)).astype(np.float32) for name in ("x", "y")}
        expected = run_source(loaded, plan, feeds)
        assert [name for name, _ in expected] == names
        for got, (name, want) in zip(session.run(None, feeds), expected, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-5, err_msg=name)


def test_flat_module_takes_tensors_in_the_order_of_the_plan(forms: dict[str, Any]) -> None:
    from convert.models.run import plan_call

    x, y = torch.rand(2, 4), torch.rand(2, 4)
    for loaded in forms.values():
        straight = FlatModule(loaded.module, plan_call(loaded, ("x", "y")))(x, y)
        swapped = FlatModule(loaded.module, plan_call(loaded, ("y", "x")))(y, x)
        assert all(torch.equal(one, other) for one, other in zip(straight, swapped, strict=True))
        assert torch.equal(straight[1], x)
        assert straight[1] is not x
        assert straight[2] is not straight[0]

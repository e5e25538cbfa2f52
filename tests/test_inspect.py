"""What ``convert inspect`` says: hand-counted operators and operations, and what the toolkits know."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from helpers import command
from rich.console import Console

from convert.errors import InputError
from convert.inspect_print import print_inspection
from convert.inspect_records import (
    ControlFlow,
    Flops,
    Found,
    Inspection,
    Operator,
    Problem,
    Questions,
    Randomness,
    RouteAnswer,
    TargetView,
)
from convert.inspect_steps import _answers, _problems
from convert.records import Dim, InputSpec, Kind, ModelRef, OutputSpec
from convert.serial import from_plain, to_plain
from convert.targets import load_target
from convert.worker import Channel

NETS = Path(__file__).parent / "helpers" / "look_nets.py"
X = InputSpec("x", "float32", (2, 4))


def look(name: str, *inputs: InputSpec, dims: tuple[Dim, ...] = ()) -> Found:
    """Run the stage in this process, as the worker does."""
    pytest.importorskip("torch")
    pytest.importorskip("litert_torch")
    return _look(ModelRef(str(NETS), Kind.FACTORY, name), inputs, dims)


def _look(ref: ModelRef, inputs: tuple[InputSpec, ...], dims: tuple[Dim, ...] = ()) -> Found:
    import warnings

    from convert.stages.inspect import run

    args = to_plain({"ref": ref, "inputs": inputs, "dims": dims, "samples": None, "half": False})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = run(args, Channel(None, None))
    assert isinstance(found, Found)
    return from_plain(Found, json.loads(json.dumps(to_plain(found))))


@pytest.mark.toolkit
def test_a_convolution_is_counted_by_hand() -> None:
    found = look("conv", InputSpec("x", "float32", ("N", 3, 8, 8)), dims=(Dim("N", 1, 2, 8),))
    seen = found.inspection
    assert (seen.kind, seen.module) == (Kind.FACTORY, "_Conv")
    assert (seen.parameters, seen.parameter_bytes) == (16 * 27 + 16 + 16 * 5 + 5, 4 * 533)
    assert (seen.buffers, seen.buffer_bytes) == (1, 4)
    assert seen.layers == {"Conv2d": 1, "Linear": 1}
    assert seen.outputs == (OutputSpec("map", "float32", ("N", 16, 6, 6)), OutputSpec("score", "float32", ("N", 5)))
    counts = {operator.name: operator.count for operator in seen.operators}
    assert counts == {"aten.conv2d": 1, "aten.relu": 1, "aten.mean": 1, "aten.linear": 1, "aten.add_": 1}
    flops = {"aten.convolution": 2 * 2 * 16 * 27 * 36, "aten.addmm": 2 * 2 * 16 * 5}
    assert seen.flops == Flops(sum(flops.values()), {"N": 2}, flops)
    assert seen.state == ("buffer calls",)
    assert seen.randomness == Randomness({}, True, "")
    assert seen.missing == ()
    assert found.answers["onnx"] == (RouteAnswer("dynamo", True), RouteAnswer("torchscript", True))
    assert [answer.takes_all for answer in found.answers["tflite"]] == [True, True]
    assert {"Conv", "Relu", "Gemm"} <= set(found.questions.onnx or ())
    assert "convolution.default" in (found.questions.program or ())


@pytest.mark.toolkit
def test_recurrent_layers_are_counted_by_hand() -> None:
    seen = look("recurrent", InputSpec("x", "float32", (2, 7, 3))).inspection
    assert seen.flops is not None
    assert seen.flops.total == 2 * (2 * 7) * (4 * 5) * (3 + 5)
    assert [operator.name for operator in seen.operators if "lstm" in operator.name] == ["aten.lstm"]


@pytest.mark.toolkit
def test_randomness_is_named() -> None:
    seen = look("noisy", X).inspection
    assert seen.randomness.operators == {"aten.dropout": 1, "aten.randn": 1}
    assert seen.randomness.repeatable is False
    assert "draws random numbers with aten.dropout, aten.randn" in seen.randomness.reason


@pytest.mark.toolkit
def test_a_branch_on_data_is_named_with_its_line() -> None:
    found = look("branch", X)
    line = NETS.read_text(encoding="utf-8").splitlines().index("        if y.sum() > 0:") + 1
    flow = found.inspection.control_flow
    assert flow == ControlFlow("GuardOnDataDependentSymNode", str(NETS), line, "if y.sum() > 0:")
    assert found.inspection.operators_from == "one run, since torch.export gives no program"
    assert {operator.name for operator in found.inspection.operators} >= {"aten.mul", "aten.sum", "aten.gt"}
    dynamo, script = found.answers["onnx"]
    assert dynamo == RouteAnswer(
        "dynamo", False, (), "torch.export gives no program (its control flow depends on the values of its inputs)"
    )
    assert script == RouteAnswer("torchscript", False, (), "a trace would freeze the branch that the example takes")


@pytest.mark.toolkit
def test_a_custom_operator_is_named_everywhere() -> None:
    found = look("custom", X)
    assert Operator("look_nets.quarter", 1, custom=True) in found.inspection.operators
    lacking = {answer.route: answer.lacking for answers in found.answers.values() for answer in answers}
    assert lacking == dict.fromkeys(("dynamo", "torchscript", "litert-torch"), ("look_nets.quarter",))
    assert (found.questions.onnx, found.questions.why_no_onnx) == (None, "no graph by dynamo")
    assert "quarter.default" in (found.questions.program or ())


@pytest.mark.toolkit
def test_what_needs_inputs_is_said_to_be_missing() -> None:
    found = look("closed")
    (missing,) = found.inspection.missing
    assert missing.startswith(
        "outputs, FLOPs, randomness, state, operators and what targets say of them: the inputs of look_nets.py are "
        "not known; give them with --input"
    )
    assert found.inspection.layers == {"_Closed": 1}
    assert found.questions.onnx is None
    with pytest.raises(InputError, match=r"not with 1 things"):
        look("closed", X)


@pytest.mark.toolkit
def test_torchscript_is_counted_without_inputs(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from convert.stages.inspect_graph import count_script

    class Loop(torch.nn.Module):  # type: ignore[name-defined]
        def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]
            for _ in range(x.shape[0]):
                x = torch.relu(x) * 2
            return x.cos()

    with pytest.warns(FutureWarning):
        module = torch.jit.script(Loop())
    counts = {operator.name: operator.count for operator in count_script(module)}
    assert {name: counts[name] for name in ("aten.relu", "aten.mul", "aten.cos")} == {
        "aten.relu": 1,
        "aten.mul": 1,
        "aten.cos": 1,
    }


@pytest.mark.toolkit
def test_an_onnx_file_needs_no_export(small_onnx: Path) -> None:
    found = _look(ModelRef(str(small_onnx), Kind.ONNX), ())
    seen = found.inspection
    assert {operator.name: operator.count for operator in seen.operators} == {"MatMul": 1, "Add": 1, "Tanh": 1}
    assert (seen.parameters, seen.file_bytes) == (36, small_onnx.stat().st_size)
    assert seen.outputs == (OutputSpec("y", "float32", ("N", 4)),)
    assert seen.randomness.repeatable is True
    assert found.questions == Questions(
        ("Add", "MatMul", "Tanh"), None, "", "needs the live module, and the source is a graph"
    )


def _found(operators: tuple[Operator, ...] = (), onnx: tuple[str, ...] | None = None) -> Found:
    seen = Inspection(1, "0", "m", Kind.FACTORY, "M", 0, 1234, 4936, 0, 0, operators=operators)
    return Found(seen, Questions(onnx, None), {"onnx": (RouteAnswer("dynamo", True),)})


def test_known_problems_are_said_once_for_torch_and_onnx() -> None:
    found = _found((Operator("aten.lstm", 3), Operator("aten.pow", 2)), ("LSTM", "Pow"))
    lstm, power = _problems(load_target("tflite"), found)
    assert (lstm.operator, lstm.count) == ("aten.lstm", 3)
    assert lstm.reason.endswith("right by litert-torch with fixed sizes")
    assert (power.operator, power.count) == ("aten.pow", 2)
    assert "right by onnx2tf" in power.reason
    assert _problems(load_target("tvm"), found) == []
    (sampled,) = _problems(load_target("tvm"), _found((Operator("aten.grid_sampler", 1),)))
    assert sampled.reason.endswith("right by onnx")
    assert _problems(load_target("onnx"), found) == []


def test_answers_stand_in_the_order_of_the_routes() -> None:
    others = {
        ("tvm", "exported-program"): RouteAnswer("exported-program", True),
        ("tvm", "onnx"): RouteAnswer("onnx", False, ("GRU",)),
    }
    answers = _answers(load_target("tvm"), _found(), others)
    assert [answer.route for answer in answers] == ["onnx", "exported-program"]
    assert [answer.route for answer in _answers(load_target("onnx"), _found(), others)] == ["dynamo"]
    assert _answers(load_target("trt"), _found(), others) == [
        RouteAnswer("engine", None, (), "needs an NVIDIA GPU; its parser is asked when converting")
    ]
    assert TargetView("tvm", tuple(answers)).works_by == ("exported-program",)


def test_the_table_says_it_all() -> None:
    seen = Inspection(
        1, "0", "net[b].py", Kind.FACTORY, "Net", 0, 1234, 4936, 0, 0,
        inputs=(InputSpec("ids", "int64", ("N", 3), 0, 9),),
        dims=(Dim("N", 1, 4, 16),),
        outputs=(OutputSpec("y", "float32", ("N", -1)),),
        operators=(Operator("aten.relu", 7), Operator("mine.op", 1, custom=True)),
        operators_from="torch.export",
        flops=Flops(2_500_000, {"N": 4}, {"aten.addmm": 2_500_000}),
        randomness=Randomness({}, True),
        state=("buffer n",),
        control_flow=ControlFlow("Guard", "net.py", 3, "if x > 0:"),
        targets=(
            TargetView(
                "tvm",
                (RouteAnswer("onnx", False, ("GRU",)), RouteAnswer("exported-program", True)),
                (Problem("aten.gru", 2, "bad"),),
            ),
        ),
        missing=("the moon",),
        notes=("a note",),
    )  # fmt: skip
    console = Console(file=io.StringIO(), width=200)
    print_inspection(seen, console)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert lines == [
        "model         net[b].py",
        "kind          factory, Net",
        "parameters    1,234 (4,936 bytes)",
        "dynamic       N=1..4..16",
        "FLOPs         2.5 M at N=4 (aten.addmm 2.5 M)",
        "randomness    none; two calls give the same",
        "state         forward updates buffer n",
        "control flow  depends on the values of the inputs at net.py:3: if x > 0: (Guard); write it with torch.where "
        "or torch.cond",
        "",
        "inputs and outputs",
        "tensor  dtype    shape",
        "in ids  int64    [N, 3] {0..9}",
        "out y   float32  [N, ?]",
        "",
        "operators, from torch.export",
        "operator   count",
        "aten.relu      7",
        "mine.op        1  custom operator",
        "",
        "target tvm",
        "route             operators",
        "onnx              lacks GRU",
        "exported-program  knows all",
        "                  aten.gru (2): bad",
        "                  knows every operator: exported-program",
        "",
        "not found out",
        "  the moon",
        "notes",
        "  a note",
    ]


@pytest.mark.toolkit
def test_the_command_asks_every_toolchain(tmp_path: Path) -> None:
    done = command.run("inspect", f"{NETS}:recurrent", "--input", "x=float32[2,7,3]", "--json", "-q", cwd=tmp_path)
    assert (done.code, done.stderr) == (0, "")
    seen: Any = json.loads(done.stdout)
    assert (seen["schema_version"], seen["parameters"]) == (1, 4 * 5 * (3 + 5 + 2))
    routes = {
        (view["target"], answer["route"]): (answer["takes_all"], answer["lacking"])
        for view in seen["targets"]
        for answer in view["routes"]
    }
    assert routes["onnx", "dynamo"] == (True, [])
    assert routes["tvm", "onnx"] == (True, [])
    assert routes["tvm", "exported-program"] == (True, [])
    assert ("tvm", "onnx-buckets") not in routes  # every size is fixed
    assert routes["tflite", "litert-torch"] == (True, [])
    assert routes["tflite", "onnx2tf"] == (True, [])
    assert routes["trt", "engine"][0] is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nothing.pt", "nothing.pt"),
        (f"{NETS}:conv --input x=float32[2", "--input 'x=float32[2' is not of the form"),
        (f"{NETS}:conv --input x=float32[N,3] --dim N=4..1", "--dim 'N=4..1' must rise"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, words: str, message: str) -> None:
    done = command.run("inspect", *words.split(), cwd=tmp_path)
    assert (done.code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("convert: ")
    assert message in line

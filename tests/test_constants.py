"""``--constant``: reading it, and what reaches ``forward`` and the exporters."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.command import run

from convert.constants import format_constant, parse_constant, parse_constants
from convert.errors import InputError
from convert.records import InputSpec, Kind, ModelRef, Report
from convert.serial import read_json
from convert.specs import ASSUMED


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("steps=4", "steps", 4),
        ("steps = -4 ", "steps", -4),
        ("scale=0.5", "scale", 0.5),
        ("scale=1e999", "scale", math.inf),
        ("causal=True", "causal", True),
        ("mask=None", "mask", None),
        ("mode=bilinear", "mode", "bilinear"),
        ("mode='4'", "mode", "4"),
        ("mode=true", "mode", "true"),
        ("mode=a=b", "mode", "a=b"),
        ("mode=", "mode", ""),
        ("mode= x ", "mode", " x "),
        ("mode=2.0.1", "mode", "2.0.1"),
        ("size=(2, 3)", "size", (2, 3)),
        ("size=[2, [None, 'a']]", "size", [2, [None, "a"]]),
    ],
)
def test_parse_constant(text: str, name: str, value: Any) -> None:
    found = parse_constant(text)
    assert found == (name, value)
    assert type(found[1]) is type(value)


@pytest.mark.parametrize("text", ["", "steps", "=4", "1steps=4", "a b=4"])
def test_a_constant_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_constant(text)
    assert str(caught.value) == (
        f"--constant {text!r} is not of the form 'name=value'; write for example 'steps=4' or 'mode=bilinear'"
    )


@pytest.mark.parametrize(("text", "kind"), [("a={1: 2}", "dict"), ("a=b'x'", "bytes"), ("a=1j", "complex")])
def test_a_literal_of_another_kind_is_refused(text: str, kind: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_constant(text)
    assert str(caught.value) == (
        f"--constant {text!r} is a {kind}; allowed are int, float, bool, str, None and tuples or lists of these"
    )


def test_a_constant_is_given_once() -> None:
    assert parse_constants(["a=1", "b=x"]) == {"a": 1, "b": "x"}
    with pytest.raises(InputError, match=r"^--constant is given twice for 'a'; give each name once$"):
        parse_constants(["a=1", "a=1"])


@pytest.mark.parametrize(
    "value", [4, -0.5, True, None, "x", "4", " it's \\ \n", "None", (), (1,), [math.inf, [-math.inf, (2, "a")]]]
)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert parse_constant(format_constant("name", value)) == ("name", value)


@pytest.mark.parametrize("value", [math.nan, [math.nan], {1: 2}, object()])
def test_what_cannot_be_written(value: Any) -> None:
    with pytest.raises(ValueError, match="cannot be written as a constant"):
        format_constant("name", value)


pytest.importorskip("torch")
import torch  # noqa: E402


class Steps(torch.nn.Module):
    """Takes numbers, a string and None beside its two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([2.0, 3.0]))

    def forward(
        self,
        x: torch.Tensor,
        steps: int,
        shift: torch.Tensor,
        mask: torch.Tensor | None = None,
        factor: float = 1.0,
        mode: str = "plus",
    ) -> torch.Tensor:
        for _ in range(steps):
            x = x * self.scale
        if mask is not None:
            x = x * mask
        x = x + shift if mode == "plus" else x - shift
        return x * factor


def wrap(module: Any, *constants: str) -> Any:
    """Loaded, with constants."""
    from convert.models.load import _live

    loaded = _live(module.eval(), ModelRef("steps.py", Kind.FACTORY))
    return replace(loaded, constants=parse_constants(constants))


FEEDS = {"x": np.array([[1, 2], [3, 4], [5, 6]], np.float32), "shift": np.array([[10, 20]], np.float32)}
EXPECTED = {  # of (steps=2, factor=0.5, mode=minus) and of (steps=1)
    "many": np.array([[-3, -1], [1, 8], [5, 17]], np.float32),
    "few": np.array([[12, 26], [16, 32], [20, 38]], np.float32),
}
CONSTANTS = {"many": ("steps=2", "factor=0.5", "mode=minus", "mask=None"), "few": ("steps=1",)}


def result(loaded: Any, feeds: dict[str, Any]) -> Any:
    """The one output."""
    from convert.models.run import plan_call, run_source

    ((name, value),) = run_source(loaded, plan_call(loaded, tuple(feeds)), feeds)
    assert name == "output"
    return value


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("script", [False, True])
@pytest.mark.parametrize("which", ["many", "few"])
def test_constants_reach_the_source_and_every_exporter(which: str, script: bool) -> None:
    from convert.models.run import plan_call
    from convert.models.scripted import for_export, for_trace

    loaded = wrap(torch.jit.script(Steps()) if script else Steps(), *CONSTANTS[which])
    np.testing.assert_array_equal(result(loaded, FEEDS), EXPECTED[which])
    renamed = {"image": FEEDS["x"], "offset": FEEDS["shift"]}  # by position, past the constant between them
    np.testing.assert_array_equal(result(loaded, renamed), EXPECTED[which])
    tensors = tuple(torch.from_numpy(FEEDS[name]) for name in ("x", "shift"))
    plan = plan_call(loaded, ("x", "shift"))
    rows = {0: torch.export.Dim("N", min=1, max=9)}
    program = torch.export.export(
        for_export(loaded, plan, tensors), tensors, dynamic_shapes={"tensors": (rows, None)}
    ).module()
    traced = for_trace(loaded, plan, tensors)
    for rows_of_x in (slice(None), slice(2)):
        fewer = (tensors[0][rows_of_x], tensors[1])
        np.testing.assert_array_equal(program(*fewer)[0].detach().numpy(), EXPECTED[which][rows_of_x])
        np.testing.assert_array_equal(traced(*fewer)[0].detach().numpy(), EXPECTED[which][rows_of_x])


@pytest.mark.parametrize(
    ("constants", "names", "message"),
    [
        (
            ("stepps=2",),
            ("x", "shift"),
            "--constant stepps names no parameter of forward; it has x, steps, shift, mask, factor, mode",
        ),
        (("steps=2", "x=1"), ("x", "shift"), "x is an input and a --constant; leave one of them out"),
        (
            ("steps=2", "mask=None", "factor=2.0", "mode=plus"),
            ("a", "b", "c"),
            "forward takes 2 inputs (x, shift), not 3; give as many",
        ),
    ],
)
def test_constants_that_do_not_fit(constants: tuple[str, ...], names: tuple[str, ...], message: str) -> None:
    from convert.models.run import plan_call

    with pytest.raises(InputError) as caught:
        plan_call(wrap(Steps(), *constants), names)
    assert str(caught.value) == message


def test_a_file_that_fixed_everything_takes_no_constant() -> None:
    from convert.models.run import plan_call

    loaded = replace(wrap(Steps(), "steps=2"), inputs=(InputSpec("x", "float32", (2,)),), parameter_names=("x",))
    with pytest.raises(InputError) as caught:
        plan_call(loaded, ("x",))
    assert str(caught.value) == (
        "--constant steps has no use here: the file fixed all but the inputs x when it was written; leave it out"
    )


def test_keywords_without_names_of_their_own_take_constants() -> None:
    class Loose(torch.nn.Module):
        def forward(self, x: Any, **more: Any) -> Any:
            return x * more["times"]

    np.testing.assert_array_equal(result(wrap(Loose(), "times=3"), {"x": FEEDS["x"]}), 3 * FEEDS["x"])


NET = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fc = torch.nn.Linear(8, 4)
    def forward(self, x, steps: int, mode: str = "plus", mask=None):
        y = self.fc(x)
        for _ in range(steps):
            y = torch.tanh(y)
        return y if mode == "plus" else y * 3
"""


@pytest.mark.toolkit
def test_a_run_with_constants_from_a_file_and_inputs_that_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "net.py").write_text(NET, encoding="utf-8")
    text = 'target = "onnx"\nout = "../out"\nbench-seconds = 0\n[constant]\nsteps = 2\nmode = "times"\n'
    config = folder / "convert.toml"
    config.write_text(text, encoding="utf-8")
    done = run("in/net.py:Net", cwd=tmp_path)
    assert done.code == 0, done.stderr
    assert f"options            target, out, bench-seconds, constant taken from {config}\n" in done.stderr
    report = read_json(Report, tmp_path / "out" / "report.json")
    (note,) = (note for note in report.golden.notes if note.startswith(ASSUMED))
    assert "--input 'x=float32[N,8]'" in note
    assert f"source: {note}\n" in done.stdout
    assert f"inputs             {note}\n" in done.stderr
    assert report.golden.inputs == (InputSpec("x", "float32", ("N", 8)),)
    assert report.options["constants"] == ["steps=2", "mode='times'"]
    assert report.options["config"] == {"file": str(config), "keys": ["target", "out", "bench-seconds", "constant"]}
    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 4)
    case = np.load(tmp_path / "out" / "golden" / report.golden.cases[0].file)
    expected = layer(torch.from_numpy(case["in:x"])).tanh().tanh() * 3
    np.testing.assert_allclose(case["out:output"], expected.detach().numpy(), rtol=1e-6)

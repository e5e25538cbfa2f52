"""``convert sensitivity``: what it refuses, and what it prints."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from helpers import command
from rich.console import Console

from convert.cli_sensitivity import sensitivity
from convert.records import Layer
from convert.sensitivity_steps import Ranking, print_layers, write_layers
from convert.stages import sensitivity as stage

LAYERS = (
    Layer("convert.models.flatten.FlatModule/net.Net_b;;convert.models.flatten.FlatModule/x", "CONV_2D", 0.25),
    Layer("view", "RESHAPE", 0.0),
)
FOUND = Ranking("tflite", "int8", LAYERS)


def test_table_has_the_worst_first_with_short_names() -> None:
    text = io.StringIO()
    print_layers(FOUND, Console(file=text, width=80))
    lines = [" ".join(line.split()) for line in text.getvalue().splitlines()]
    assert lines == [
        "tflite int8: the noise that each layer adds alone",
        "# noise SQNR dB operator layer",
        "1 25.000% 12.0 CONV_2D net.Net_b",
        "2 0.000% – RESHAPE view",
    ]


def test_json_has_the_whole_names(capsys: pytest.CaptureFixture[str]) -> None:
    write_layers(FOUND)
    plain = json.loads(capsys.readouterr().out)
    assert (plain["target"], plain["precision"]) == ("tflite", "int8")
    assert plain["layers"][0] == {"name": LAYERS[0].name, "operator": "CONV_2D", "noise": 0.25}


def test_options_are_those_of_a_run_and_each_is_there_once() -> None:
    with sensitivity.make_context("sensitivity", ["net.pt"]) as context:
        names = [item.name for item in sensitivity.get_params(context)]
    assert len(names) == len(set(names))
    assert {"model", "target", "precision", "samples", "inputs", "timeout", "as_json"} <= set(names)
    assert not {"out", "bench_seconds", "jobs", "allow_deferred"} & set(names)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--target", "tflite,onnx"), "tflite, onnx are several; layers are ranked for one"),
        (("--precision", "int8,int16x8"), "int8, int16x8 are several; layers are ranked for one"),
        (("--precision", "float16"), "--precision float16 puts no layer into integers, so there is nothing to rank"),
        (("--precision", "int4"), "--precision 'int4' names int4; choose from"),
    ],
)
def test_what_cannot_be_ranked_is_a_usage_error(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "net.py").write_text("def make():\n    raise SystemExit(3)\n")
    done = command.run("sensitivity", "net.py:make", *words, cwd=tmp_path)
    assert (done.code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())


def test_keys_of_engines_in_the_file_are_for_other_commands(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("def make():\n    raise SystemExit(3)\n")
    lines = ['target = "trt"', 'engine-flag = "refit"', 'workspace = "1G"', 'provider = "cuda"']
    (tmp_path / "convert.toml").write_text("\n".join(lines))
    done = command.run("sensitivity", "net.py:make", "--precision", "float16", cwd=tmp_path)
    assert "--precision float16 puts no layer into integers" in " ".join(done.stderr.split())


def test_stage_asks_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Target:
        def sensitivity(self, request: Any) -> tuple[Layer, ...]:
            asked.append(request)
            return LAYERS

    class Channel:
        def say(self, text: str) -> None:
            asked.append(text)

    monkeypatch.setattr(stage, "load_target", lambda name: Target())
    monkeypatch.setattr(stage, "request_of", lambda args: args["target"])
    channel: Any = Channel()
    assert stage.run({"target": "tflite"}, channel) == {"layers": LAYERS}
    assert asked == ["measuring the noise of every layer", "tflite"]

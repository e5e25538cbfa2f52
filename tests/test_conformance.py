"""Every target on every reference model, on the real toolkits: it passes, or fails closed for a known reason.

A gap that is listed and no longer there is a failure too, so that the list stays true.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from convert.models.zoo import ZOO, Reference
from convert.specs import format_input, parse_dim, parse_input, shape_at
from convert.targets import TARGETS, load_target
from convert.toolchains import find

pytestmark = pytest.mark.toolkit

CPU_TARGETS = tuple(name for name in TARGETS if not load_target(name).device)

#: (target, model) -> what the reason of its failure must say.
GAPS: dict[tuple[str, str], str] = {
    ("tflite", "lstm"): "it is right at one size only",
    ("tflite", "bilstm"): "it is right at one size only",
    ("tflite", "gru"): "it is right at one size only",
    ("tflite", "audio"): "it is right at one size only",
    ("tvm", "lstm"): "not supported for frontend ONNX: LSTM",
    ("tvm", "bilstm"): "not supported for frontend ONNX: LSTM",
    ("tvm", "gru"): "not supported for frontend ONNX: GRU",
    ("tvm", "segment"): "relax.concat",
}


@cache
def report_of(model: str, fixed: bool = False) -> dict[str, Any]:
    """Convert a reference model for every CPU target, once; ``fixed`` at the optimum of every dynamic size."""
    reference = ZOO[model]
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "convert", reference.factory, "--target", ",".join(CPU_TARGETS)]
        command += ["--bench-seconds", "0", "--quiet", "--out", f"{folder}/out"]
        command += _fixed_inputs(reference) if fixed else _dynamic_inputs(reference)
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
        report = Path(folder, "out", "report.json")
        assert report.is_file(), done.stderr
        return dict(json.loads(report.read_text(encoding="utf-8")))


def _dynamic_inputs(reference: Reference) -> list[str]:
    inputs = [word for text in reference.inputs for word in ("--input", text)]
    return inputs + [word for text in reference.dims for word in ("--dim", text)]


def _fixed_inputs(reference: Reference) -> list[str]:
    opt = {dim.name: dim.opt for dim in map(parse_dim, reference.dims)}
    specs = [parse_input(text) for text in reference.inputs]
    return [word for spec in specs for word in ("--input", format_input(replace(spec, shape=shape_at(spec, opt))))]


def row(model: str, target: str, fixed: bool = False) -> dict[str, Any]:
    return next(dict(one) for one in report_of(model, fixed)["artifacts"] if one["target"] == target)


@pytest.mark.parametrize(
    "toolchain", sorted({load_target(name).runtime_toolchain for name in CPU_TARGETS} | {"onnx2tf"})
)
def test_no_toolchain_vanishes_silently(toolchain: str) -> None:
    assert find(toolchain) is not None, f"{toolchain} is missing, so its targets would go untested: make toolchains"


@pytest.mark.parametrize("target", CPU_TARGETS)
@pytest.mark.parametrize("model", ZOO)
def test_target_on_model(model: str, target: str) -> None:
    outcome = row(model, target)
    expected = GAPS.get((target, model))
    if expected is not None:
        assert (outcome["status"], outcome["files"]) == ("failed", [])
        told = [outcome["reason"], outcome["advice"], *(route["reason"] for route in outcome["routes"])]
        assert expected in " ".join(told)
        return
    assert outcome["status"] == "passed", outcome["reason"]
    checked = {(check["case"], check["output"]) for check in outcome["checks"]}
    golden = report_of(model)["golden"]
    assert checked == {(case["name"], output["name"]) for case in golden["cases"] for output in golden["outputs"]}


@pytest.mark.parametrize(("target", "model"), GAPS)
def test_gaps_close_at_fixed_sizes(target: str, model: str) -> None:
    outcome = row(model, target, fixed=True)
    assert outcome["status"] == "passed", outcome["reason"]


@pytest.mark.parametrize("route", ["dynamo", "torchscript"])
@pytest.mark.parametrize("model", ZOO)
def test_both_exporters_are_right(model: str, route: str) -> None:
    result = next(one for one in report_of(model)["export"]["routes"] if one["route"] == route)
    assert result["status"] == "passed", result["reason"]

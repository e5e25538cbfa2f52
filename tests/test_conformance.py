"""Every target on every reference model, on the real toolkits: it passes, or fails closed for a known reason.

A gap that is listed and no longer there is a failure too, so that the list stays true.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from convert.models.zoo import ZOO
from convert.targets import TARGETS, load_target
from convert.toolchains import find

pytestmark = pytest.mark.toolkit

CPU_TARGETS = tuple(name for name in TARGETS if not load_target(name).device)

#: (target, model) -> what the reason of its failure must say.
GAPS: dict[tuple[str, str], str] = {}

#: (route, model) -> what an exporter's verdict must say; each exporter is wrong or fails where the other is right.
LOST_EXPORTS: dict[tuple[str, str], str] = {}


@cache
def report_of(model: str) -> dict[str, Any]:
    """Convert a reference model for every CPU target, once."""
    reference = ZOO[model]
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "convert", reference.factory, "--target", ",".join(CPU_TARGETS)]
        command += ["--bench-seconds", "0", "--quiet", "--out", f"{folder}/out"]
        command += [word for text in reference.inputs for word in ("--input", text)]
        command += [word for text in reference.dims for word in ("--dim", text)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
        report = Path(folder, "out", "report.json")
        assert report.is_file(), done.stderr
        return dict(json.loads(report.read_text(encoding="utf-8")))


def row(model: str, target: str) -> dict[str, Any]:
    return next(dict(one) for one in report_of(model)["artifacts"] if one["target"] == target)


@pytest.mark.parametrize("toolchain", sorted({load_target(name).runtime_toolchain for name in CPU_TARGETS} | {"onnx2tf"}))
def test_no_toolchain_vanishes_silently(toolchain: str) -> None:
    assert find(toolchain) is not None, f"{toolchain} is missing, so its targets would go untested: make toolchains"


@pytest.mark.parametrize("target", CPU_TARGETS)
@pytest.mark.parametrize("model", ZOO)
def test_target_on_model(model: str, target: str) -> None:
    outcome = row(model, target)
    expected = GAPS.get((target, model))
    if expected is not None:
        assert (outcome["status"], outcome["files"]) == ("failed", [])
        assert expected in " ".join([outcome["reason"], *(route["reason"] for route in outcome["routes"])])
        return
    assert outcome["status"] == "passed", outcome["reason"]
    checked = {(check["case"], check["output"]) for check in outcome["checks"]}
    golden = report_of(model)["golden"]
    assert checked == {(case["name"], output["name"]) for case in golden["cases"] for output in golden["outputs"]}


@pytest.mark.parametrize("route", ["dynamo", "torchscript"])
@pytest.mark.parametrize("model", ZOO)
def test_exporters(model: str, route: str) -> None:
    result = next(one for one in report_of(model)["export"]["routes"] if one["route"] == route)
    expected = LOST_EXPORTS.get((route, model))
    if expected is None:
        assert result["status"] == "passed", result["reason"]
    else:
        assert result["status"] == "failed"
        assert expected in result["reason"]

"""Models whose meaning exporters lose: they come out right, or are refused in one sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers import command

pytestmark = pytest.mark.toolkit
NETS = Path(__file__).parent / "helpers" / "semantic_nets.py"


def convert(place: Path, name: str, *words: str) -> dict[str, Any]:
    options = ("--bench-seconds", "0", "--quiet", "--out", str(place / "out"))
    done = command.run(f"{NETS}:{name}", *words, *options, cwd=place)
    assert (place / "out" / "report.json").is_file(), done.stderr
    return dict(json.loads((place / "out" / "report.json").read_text(encoding="utf-8")))


def test_a_branch_on_data_is_refused_although_no_draw_takes_it(tmp_path: Path) -> None:
    report = convert(tmp_path, "branch", "--input", "x=float32[2,4]", "--target", "onnx")
    (outcome,) = report["artifacts"]
    assert outcome["status"] == "failed"
    routes = {route["route"]: route["reason"] for route in report["export"]["routes"]}
    assert "GuardOnDataDependentSymNode" in routes["dynamo"]
    assert routes["torchscript"].startswith("the source's control flow depends on the values of its inputs")


def test_layers_that_would_overflow_stay_in_float32_and_are_named(tmp_path: Path) -> None:
    report = convert(
        tmp_path, "overflow", "--input", "x=float32[3,64]", "--target", "onnx", "--precision", "float32,float16"
    )
    full, half = report["artifacts"]
    assert (full["status"], half["status"]) == ("passed", "passed")
    (note,) = [note for note in half["notes"] if "float32" in note]
    assert re.match(
        r"\d+ layers kept in float32, since float16 cannot hold their numbers: node_\w+ \(\w+ reaches ", note
    )
    size = {one["precision"]: one["files"][-1]["size"] for one in (full, half)}
    assert size["float16"] < 0.75 * size["float32"]


def test_sizes_that_the_source_refuses_are_not_asked_for(tmp_path: Path) -> None:
    report = convert(tmp_path, "even", "--input", "x=float32[2,T]", "--dim", "T=2..8..16", "--target", "onnx")
    assert report["artifacts"][0]["status"] == "passed"
    sizes = {case["dims"]["T"] for case in report["golden"]["cases"]}
    assert sizes == {2, 6, 8, 16}


@pytest.mark.slow
def test_weights_beyond_two_gib_move_with_the_file(tmp_path: Path) -> None:
    report = convert(tmp_path, "wide", "--input", "ids=int64[N,3]{0..8999999}", "--target", "onnx", "--memory", "20G")
    (outcome,) = report["artifacts"]
    assert outcome["status"] == "passed", outcome["reason"]
    sizes = {Path(file["path"]).name: file["size"] for file in outcome["files"]}
    assert sizes["model.onnx"] < 1_000_000
    assert sizes["model.onnx.data"] == pytest.approx(9_000_000 * 64 * 4, rel=0.01)

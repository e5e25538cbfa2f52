"""What the run of the digits classifier leaves in its folder, and that the report tells the truth about it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import jsonschema
import pytest
from helpers.command import ROOT
from helpers.full_run import PASSED, FullRun

from convert import __version__
from convert.records import IoEntry, Status
from convert.report.markdown import render
from convert.serial import to_plain
from convert.toolchains import find

pytestmark = pytest.mark.toolkit

CASES = ("min-draw0", "opt-draw0", "opt-draw1", "max-draw0", "odd-draw0", "edge-zeros", "sample0", "sample3")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_report_follows_its_schema(digits_run: FullRun) -> None:
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(digits_run.plain, schema)
    index = json.loads((digits_run.out / "golden" / "index.json").read_text(encoding="utf-8"))
    jsonschema.validate(index, {"$ref": "#/$defs/Golden", "$defs": schema["$defs"]})
    assert index == digits_run.plain["golden"]


def test_the_report_can_be_read_back_without_loss(digits_run: FullRun) -> None:
    assert to_plain(digits_run.report) == digits_run.plain


def test_every_file_is_listed_with_its_hash(digits_run: FullRun) -> None:
    there = {path.relative_to(digits_run.out).as_posix() for path in digits_run.out.rglob("*") if path.is_file()}
    assert {file.path for file in digits_run.report.files} == there - {"report.json"}
    for file in digits_run.report.files:
        path = digits_run.out / file.path
        assert (file.sha256, file.size) == (sha256(path), path.stat().st_size), file.path


def test_the_files_of_an_artifact_are_those_of_its_folder(digits_run: FullRun) -> None:
    listed = {file.path: file for file in digits_run.report.files}
    for outcome in digits_run.report.artifacts:
        prefix = f"{outcome.target}/{outcome.precision}/"
        assert [file.path for file in outcome.files] == sorted(path for path in listed if path.startswith(prefix))
        assert all(listed[file.path] == file for file in outcome.files)
    assert [file.path for file in digits_run.outcome("tflite", "float16").files] == [
        "tflite/float16/manifest.json",
        "tflite/float16/model.tflite",
    ]


def test_the_report_says_what_was_run_on_what(digits_run: FullRun) -> None:
    report = digits_run.report
    (model,) = digits_run.folders["input"].glob("*.pt2")
    assert report.model["sha256"] == sha256(model)
    assert (report.model["kind"], report.model["size"]) == ("exported-program", model.stat().st_size)
    assert report.command[0] == str(model)
    assert report.options["targets"] == ["onnx", "tflite", "tvm", "trt"]
    assert report.options["precisions"] == ["float32", "float16"]
    assert (report.options["timeout"], report.options["memory"], report.options["threads"]) == (600.0, None, 1)
    assert report.toolchains["core"] == (find("core") or pytest.fail("no core")).versions
    assert report.host["cores"] == os.cpu_count()
    assert report.convert_version == __version__
    assert set(report.seconds) >= {"golden", "export", "build", "bench", "total", "workers.check"}
    assert report.seconds["total"] >= report.seconds["export"] > 0


def test_no_path_of_the_work_is_left(digits_run: FullRun) -> None:
    assert not (digits_run.out / "work").exists()
    for path in digits_run.out.rglob("*"):
        if path.is_file() and "logs" not in path.parts and path.suffix != ".so":
            assert b".partial-" not in path.read_bytes(), path


def test_the_markdown_is_the_report(digits_run: FullRun) -> None:
    text = (digits_run.out / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# ExportedProgram\n")
    assert render(digits_run.report) == text


def test_onnx_was_exported_both_ways(digits_run: FullRun) -> None:
    export = digits_run.report.export
    assert (export.status, export.route, export.opset) == (Status.PASSED, "dynamo", 18)
    assert [route.route for route in export.routes] == ["dynamo", "torchscript"]
    assert all((digits_run.out / route.log).is_file() for route in export.routes)
    assert export.dynamic_axes == {"image": ("N", 1, 8, 8), "output": ("N", 10)}


@pytest.mark.parametrize(("target", "precision"), PASSED)
def test_every_case_was_checked_against_a_limit(digits_run: FullRun, target: str, precision: str) -> None:
    outcome = digits_run.outcome(target, precision)
    names = {case.name for case in digits_run.report.golden.cases}
    assert set(CASES) <= names
    left_out = {"edge-large"} if precision == "float16" else set()
    assert [check.case for check in outcome.checks] == [
        case.name for case in digits_run.report.golden.cases if case.name not in left_out
    ]
    sizes = {check.case: check.dims["N"] for check in outcome.checks}
    assert (sizes["min-draw0"], sizes["opt-draw0"], sizes["max-draw0"]) == (1, 8, 64)
    for check in outcome.checks:
        assert (check.output, check.passed) == ("output", True)
        assert 0 <= check.figure <= check.limit < 1
        assert check.rule
    if precision == "float32":
        draws = [check.limit for check in outcome.checks if "draw" in check.case]
        assert max(draws) < 1e-3


@pytest.mark.parametrize(("target", "precision"), PASSED)
def test_every_passed_artifact_was_timed(digits_run: FullRun, target: str, precision: str) -> None:
    latency = digits_run.outcome(target, precision).latency
    assert latency is not None
    assert (latency.threads, latency.dims) == (1, {"N": 8})
    assert latency.samples >= 3 * latency.rounds > 0
    assert 0 < latency.p50_ms <= latency.p90_ms <= latency.p99_ms
    assert latency.throughput_per_s == pytest.approx(1e3 / latency.p50_ms)
    assert latency.peak_memory_mib > 20
    for ratio, spread in (
        (latency.ratio_to_onnxruntime, latency.ratio_spread_onnxruntime),
        (latency.ratio_to_eager, latency.ratio_spread_eager),
    ):
        assert ratio is not None
        assert ratio > 0
        assert spread[0] <= ratio <= spread[1]


@pytest.mark.parametrize(("target", "precision"), PASSED)
def test_every_artifact_has_a_manifest_with_its_interface(digits_run: FullRun, target: str, precision: str) -> None:
    artifact = digits_run.artifact(target, precision)
    outcome = digits_run.outcome(target, precision)
    assert (artifact.target, artifact.precision, artifact.route) == (target, precision, outcome.route.partition("@")[0])
    assert artifact.platform == outcome.platform
    assert artifact.files[0] == {"onnx": "model.onnx", "tflite": "model.tflite", "tvm": "model.so"}[target]
    assert artifact.io == outcome.io
    (image, output) = artifact.io
    assert (image.source, image.role, image.dtype, output.source, output.role) == (
        "image",
        "input",
        "float32",
        "output",
        "output",
    )
    if target != "tflite":  # whose converters choose names and layouts of their own
        assert image == IoEntry("image", "input", "image", "float32", (-1, 1, 8, 8), source_dtype="float32")
        assert output == IoEntry("output", "output", "output", "float32", (-1, 10), source_dtype="float32")
    manifest = json.loads((digits_run.out / target / precision / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["dims"] == [{"name": "N", "min": 1, "opt": 8, "max": 64}]
    assert manifest["source"] == digits_run.plain["model"]
    assert manifest["versions"]

"""The command from end to end: one real run of the digits classifier to every target, and what it leaves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.command import Variables, importing, python_of, run
from helpers.full_run import HAS_GPU, PASSED, FullRun

from convert import __version__
from convert.pipeline import exit_code
from convert.records import Status
from convert.report.cells import COLUMNS
from convert.toolchains import TOOLCHAINS

toolkit = pytest.mark.toolkit

# What the run says.


@toolkit
@pytest.mark.skipif(HAS_GPU, reason="nothing is deferred where there is a GPU")
def test_something_deferred_is_exit_code_3(digits_run: FullRun) -> None:
    assert digits_run.done.code == 3, digits_run.done.stderr
    assert digits_run.report.exit_code == 3
    trt = digits_run.outcome("trt", "float32")
    assert (trt.status, trt.stage, trt.route) == (Status.DEFERRED, "build", "recipe")
    assert trt.reason.startswith(("this host has no NVIDIA driver", "the NVIDIA driver finds no usable GPU"))
    assert trt.advice == (
        "copy the folder trt/float32 to a host with an NVIDIA GPU, run `python build_engine.py` in it, and fold the "
        f"copy into this report with `convert merge {digits_run.out} COPY`"
    )
    assert (trt.checks, trt.latency) == ((), None)


@toolkit
def test_every_artifact_has_its_one_status(digits_run: FullRun) -> None:
    found = {(one.target, one.precision): one.status for one in digits_run.report.artifacts}
    for precision in ("float32", "float16"):
        found.pop(("trt", precision))  # depends on the host
    assert found == dict.fromkeys(PASSED, Status.PASSED) | {("tvm", "float16"): Status.SKIPPED}
    assert digits_run.outcome("tvm", "float16").reason == "tvm does not offer float16; it offers float32"
    assert len(digits_run.report.artifacts) == 8


@toolkit
def test_the_exit_code_is_the_one_in_the_report(digits_run: FullRun) -> None:
    assert digits_run.done.code == digits_run.report.exit_code
    assert digits_run.done.code == exit_code(digits_run.report.artifacts, allow_deferred=False)


@toolkit
@pytest.mark.skipif(HAS_GPU, reason="nothing is deferred where there is a GPU")
def test_deferred_can_be_allowed(small_onnx: Path, tmp_path: Path) -> None:
    words = ["-t", "onnx,trt", "--allow-deferred", "--quiet", "--bench-seconds", "0"]
    done = run(small_onnx, *words, cwd=tmp_path)
    assert done.code == 0, done.stdout
    assert done.stderr == ""
    report = json.loads((tmp_path / "dist" / "small" / "report.json").read_text(encoding="utf-8"))
    assert report["exit_code"] == 0
    assert [one["status"] for one in report["artifacts"]] == ["passed", "deferred"]
    assert report["artifacts"][0]["latency_reason"] == "not asked for"
    assert done.stdout.splitlines()[-1] == "report: dist/small/report.json and report.md"


@toolkit
def test_a_table_is_printed(digits_run: FullRun) -> None:
    lines = digits_run.done.stdout.splitlines()
    head = next(place for place, line in enumerate(lines) if line.startswith("target "))
    assert lines[head].split() == [word for column in COLUMNS for word in column.split()]
    rows = [line.split() for line in lines[head + 1 : head + 9]]
    wanted = [[one.target, one.precision, str(one.status)] for one in digits_run.report.artifacts]
    assert [row[:3] for row in rows] == wanted
    assert [row[3] for row in rows] == [one.route or "–" for one in digits_run.report.artifacts]
    assert lines[-1] == f"report: {digits_run.out}/report.json and report.md"
    assert "\x1b" not in digits_run.done.stdout


@toolkit
def test_progress_is_plain_lines_where_there_is_no_terminal(digits_run: FullRun) -> None:
    lines = digits_run.done.stderr.splitlines()
    assert "\x1b" not in digits_run.done.stderr
    assert lines[0] == "source             loading the source"
    assert any(re.fullmatch(r"onnx float32       passed by export in \d+\.\d s", line) for line in lines)
    assert any(line.startswith("export             opset 18 by route dynamo (dynamo passed") for line in lines)
    assert len([line for line in lines if "case 1 of" in line]) < 25
    assert "Traceback" not in digits_run.done.stderr


# A toolchain that is missing.


@toolkit
def test_a_missing_toolchain_is_a_failure_that_says_how_to_get_it(small_onnx: Path, tmp_path: Path) -> None:
    variables: Variables = {
        "CONVERT_CACHE": tmp_path / "cache",
        "CONVERT_PYTHON_TVM": "",
        "CONVERT_PYTHON_CORE": python_of("core"),
    }
    done = run(small_onnx, "-t", "onnx,tvm", "-q", "--bench-seconds", "0", cwd=tmp_path, variables=variables)
    assert done.code == 1
    report = json.loads((tmp_path / "dist" / "small" / "report.json").read_text(encoding="utf-8"))
    first, second = report["artifacts"]
    assert (first["status"], second["status"], second["stage"]) == ("passed", "failed", "toolchain")
    said = "the toolchain tvm is not installed; get it with `convert toolchain install tvm`"
    assert said in second["reason"]
    assert said in done.stdout


# The other commands.


def test_the_version(tmp_path: Path) -> None:
    done = run("--version", cwd=tmp_path)
    assert (done.code, done.stdout, done.stderr) == (0, f"convert, version {__version__}\n", "")


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["run", "--help"], ["toolchain", "--help"]])
def test_help(tmp_path: Path, words: list[str]) -> None:
    done = run(*words, cwd=tmp_path)
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: ")
    assert "\\" not in done.stdout


def test_the_examples_in_the_help_stand_on_their_own_lines(tmp_path: Path) -> None:
    lines = [line.strip() for line in run("--help", cwd=tmp_path).stdout.splitlines()]
    assert "convert model.pt2 --target onnx,tflite,tvm,trt" in lines
    assert "convert net.py:make_model --input 'x=float32[N,3,224,224]' --target tflite" in lines


def test_help_loads_next_to_nothing() -> None:
    code = (
        "import sys\nfrom convert.cli import main\nsys.argv = ['convert', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    print('LOADED', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=importing(), capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()[1:]}
    assert {"click", "convert"} <= loaded
    assert loaded & {"numpy", "rich", "torch", "onnx", "psutil", "filelock", "asyncio", "tensorflow", "tvm"} == set()


def test_targets_are_listed(tmp_path: Path) -> None:
    done = run("targets", cwd=tmp_path)
    assert (done.code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["target", "ready", "precisions", "routes", "versions", "missing"]
    assert [line.split()[0] for line in lines[1:] if line[:1].strip()] == ["onnx", "tflite", "tvm", "trt", "trt-rtx"]


def test_what_a_target_lacks_is_said_with_the_command(tmp_path: Path) -> None:
    variables: Variables = {"CONVERT_CACHE": tmp_path / "empty", "CONVERT_PYTHON_TVM": "", "CONVERT_PYTHON_TRT": ""}
    done = run("targets", cwd=tmp_path, variables=variables)
    rows = {line.split()[0]: line for line in done.stdout.splitlines()[1:]}
    assert rows["tvm"].split()[1] == "no"
    assert rows["tvm"].rstrip().endswith("toolchain tvm: convert toolchain install tvm")
    assert not (tmp_path / "empty").exists()


def test_toolchains_are_listed(tmp_path: Path) -> None:
    unset = {f"CONVERT_PYTHON_{name.upper().replace('-', '_')}": "" for name in TOOLCHAINS if name != "core"}
    variables: Variables = {"CONVERT_CACHE": tmp_path / "empty", **unset}
    done = run("toolchain", "list", cwd=tmp_path, variables=variables)
    assert (done.code, done.stderr) == (0, "")
    rows = {line.split()[0]: line.rstrip() for line in done.stdout.splitlines()[1:]}
    assert list(rows) == list(TOOLCHAINS)
    assert rows["tvm"].endswith("convert toolchain install tvm")
    assert " not installed " in rows["tvm"]
    assert not (tmp_path / "empty").exists()


def test_a_wrong_variable_is_shown_in_the_list(tmp_path: Path) -> None:
    done = run("toolchain", "list", cwd=tmp_path, variables={"CONVERT_PYTHON_TVM": "/nowhere/python"})
    assert done.code == 0
    assert "CONVERT_PYTHON_TVM is '/nowhere/python', which is no program" in done.stdout


def test_removing_what_is_not_there(tmp_path: Path) -> None:
    done = run("toolchain", "remove", "tvm", cwd=tmp_path, variables={"CONVERT_CACHE": tmp_path / "empty"})
    assert (done.code, done.stdout, done.stderr) == (0, "tvm: was not in the cache folder\n", "")


@toolkit
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_the_signs(small_onnx: Path, tmp_path: Path, encoding: str) -> None:
    words = ["-t", "onnx", "-q", "--bench-seconds", "0"]
    done = run(small_onnx, *words, cwd=tmp_path, variables={"PYTHONIOENCODING": encoding})
    assert done.code == 0, done.stderr
    assert "onnx    float32    passed" in done.stdout

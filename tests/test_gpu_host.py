"""A conversion on a host with a GPU, as far as that goes without one: see ``helpers/gpu_standin/README.md``."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from helpers.command import Done, run
from helpers.full_run import DIGITS, HAS_GPU
from helpers.gpu_host import NAME, gpu_host

from convert.errors import StageError
from convert.records import Outcome, Report, Status
from convert.serial import read_json
from convert.targets.trt import require_same_host

pytestmark = [pytest.mark.toolkit, pytest.mark.skipif(HAS_GPU, reason="there is a real GPU here")]


def converted(place: Path, *words: str, seconds: str = "0", **said: str) -> tuple[Done, Report]:
    done = run(
        DIGITS / "digits.pt2", "--samples", DIGITS / "samples.npz", "-t", "trt", "--out", place / "out", "-q",
        "--bench-seconds", seconds, *words, cwd=place, variables=gpu_host(place / "gpu", **said),
    )  # fmt: skip
    return done, read_json(Report, place / "out" / "report.json")


def only(report: Report) -> Outcome:
    (outcome,) = report.artifacts
    return outcome


def test_an_engine_is_built_checked_and_timed(tmp_path: Path) -> None:
    done, report = converted(tmp_path, seconds="0.5")
    trt = only(report)
    assert (done.code, trt.status, trt.route) == (0, Status.PASSED, "engine")
    assert trt.gpu is not None
    assert (trt.gpu.name, trt.gpu.compute_capability, trt.gpu.driver) == (NAME, "8.6", "580.65.06")
    assert (trt.gpu.cuda, trt.gpu.tensorrt, trt.gpu.memory_mib) == ("13.0", "11.4.0.1", 8192)
    assert {check.case for check in trt.checks} == {case.name for case in report.golden.cases}
    assert trt.engine is not None
    assert trt.engine.layers == sum(trt.engine.precisions.values()) > 5
    assert trt.engine.tactics["stand_in_conv"] == 8
    assert trt.latency is not None
    assert trt.latency.gpu is not None
    assert min(trt.latency.gpu.host_to_device_ms, trt.latency.gpu.compute_ms, trt.latency.gpu.device_to_host_ms) > 0
    assert trt.latency.gpu.memory_mib > 0
    manifest = json.loads((tmp_path / "out/trt/float32/manifest.json").read_text(encoding="utf-8"))
    assert manifest["settings"]["built_on"]["name"] == NAME
    engine = (tmp_path / "out/trt/float32/model.engine").read_bytes().split(b"\n")[1]
    assert json.loads(engine)["profiles"] == [{"image": [[1, 1, 8, 8], [8, 1, 8, 8], [64, 1, 8, 8]]}]


@pytest.mark.parametrize(
    ("said", "stage", "reason"),
    [
        ({"STANDIN_WRONG": "output"}, "check", "engine: output output in case "),
        (
            {"STANDIN_NO_ENGINE": "no tactic fits"},
            "build",
            "engine: TensorRT's builder refuses the graph: no tactic fits",
        ),
        (
            {"STANDIN_REFUSES": "Conv"},
            "build",
            r"engine: TensorRT's parser refuses the graph: node node_\w+ \(Conv\): the stand-in refuses it; node ",
        ),
    ],
)
def test_an_engine_that_is_not_right_fails(tmp_path: Path, said: dict[str, str], stage: str, reason: str) -> None:
    done, report = converted(tmp_path, **said)
    trt = only(report)
    assert (done.code, trt.status, trt.stage) == (1, Status.FAILED, stage)
    assert re.match(reason, trt.reason)
    assert not (tmp_path / "out/trt/float32/model.engine").exists()


def test_a_driver_without_a_gpu_defers(tmp_path: Path) -> None:
    done, report = converted(tmp_path, STANDIN_CUINIT="100")
    trt = only(report)
    assert (done.code, trt.status) == (3, Status.DEFERRED)
    assert trt.reason == "the NVIDIA driver finds no usable GPU (cuInit gave 100)"


def test_an_engine_that_says_nothing_of_its_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StageError, match="does not say which GPU this engine was built on"):
        require_same_host({}, "11.4.0.1")
    built = {"name": "A", "compute_capability": "8.6", "driver": "1", "cuda": "1", "tensorrt": "11.4.0.1"}
    monkeypatch.setattr("convert.targets.trt.gpu_here", lambda tensorrt: built | {"name": "B", "tensorrt": tensorrt})
    with pytest.raises(StageError, match=r"^this engine was not built for this host: it is for A, not B; build it"):
        require_same_host({"built_on": built, "hardware": "none", "flags": []}, "11.4.0.1")
    require_same_host({"built_on": built, "hardware": "same-compute-capability", "flags": []}, "11.4.0.1")


@pytest.fixture(scope="module")
def run_here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output folder of a host without a GPU: onnx and trt, float32 and int8."""
    place = tmp_path_factory.mktemp("first")
    done = run(
        DIGITS / "digits.pt2", "--samples", DIGITS / "samples.npz", "--calibration", DIGITS / "samples.npz",
        "-t", "onnx,trt", "-p", "float32,int8", "--bench-seconds", "0", "-q", "--out", place / "out", cwd=place,
    )  # fmt: skip
    assert done.code == 3, done.stderr
    return place / "out"


@pytest.fixture
def first(run_here: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run_here, tmp_path / "first"))


@pytest.fixture
def recipe(first: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(first / "trt" / "float32", tmp_path / "elsewhere"))


def by_script(recipe: Path, place: Path, *words: str, **said: str) -> Any:
    """``python build_engine.py`` on the other host."""
    python = gpu_host(place / "gpu", **said)["CONVERT_PYTHON_TRT"]
    return subprocess.run(
        [python, recipe / "build_engine.py", *words], capture_output=True, text=True, check=False, cwd=place
    )


def merged(first: Path, *results: Path) -> tuple[Done, Report]:
    done = run("merge", first, *results, "-q", cwd=first.parent)
    return done, read_json(Report, first / "report.json")


def row(report: Report, precision: str = "float32") -> Outcome:
    return next(one for one in report.artifacts if (one.target, one.precision) == ("trt", precision))


def test_two_hosts_end_in_one_report(first: Path, recipe: Path, tmp_path: Path) -> None:
    before = read_json(Report, first / "report.json")
    done = by_script(recipe, tmp_path)
    assert (done.returncode, done.stdout) == (0, "passed\n"), done.stderr
    assert not (recipe / "trt_host" / "__pycache__").exists()
    done, report = merged(first, recipe)
    trt = row(report)
    assert (done.code, trt.status, trt.route, trt.reason, trt.advice) == (3, Status.PASSED, "engine", "", "")
    assert row(report, "int8").status is Status.DEFERRED
    assert trt.gpu is not None
    assert trt.gpu.name == NAME
    assert {check.case for check in trt.checks} == {case.name for case in report.golden.cases}
    assert trt.latency is not None
    assert trt.latency.gpu is not None
    assert trt.latency.ratio_to_onnxruntime is None
    assert trt.gate == row(before).gate
    assert [one for one in report.artifacts if one.target == "onnx"] == [
        one for one in before.artifacts if one.target == "onnx"
    ]
    place = first / "trt" / "float32"
    assert (place / "model.engine").read_bytes() == (recipe / "model.engine").read_bytes()
    assert json.loads((place / "manifest.json").read_text(encoding="utf-8"))["status"] == "passed"
    assert f"built, checked and timed on {NAME}" in (first / "report.md").read_text(encoding="utf-8")
    listed = {record.path for record in report.files}
    assert listed == {p.relative_to(first).as_posix() for p in first.rglob("*") if p.is_file()} - {"report.json"}
    assert refusal(first, recipe) == "trt float32 is already passed in the report in OUT; nothing is left to merge"


def test_build_recipe_in_the_output_folder_ends_the_report(first: Path, tmp_path: Path) -> None:
    done = run("build-recipe", first, "-q", cwd=tmp_path, variables=gpu_host(tmp_path / "gpu"))
    report = read_json(Report, first / "report.json")
    assert (done.code, report.exit_code) == (0, 0), done.stderr
    assert {one.status for one in report.artifacts} == {Status.PASSED}
    # int8 is held to its calibration data too, which only the recipe has.
    assert "calibration0" in {check.case for check in row(report, "int8").checks}
    again = run("build-recipe", first, "-q", cwd=tmp_path, variables=gpu_host(tmp_path / "more"))
    assert again.code == 2
    assert "holds no recipe that waits for a GPU; nothing is left to build" in again.stderr


def test_a_recipe_alone_gives_a_report_of_its_own(recipe: Path, first: Path, tmp_path: Path) -> None:
    done = run("build-recipe", recipe, "-q", cwd=tmp_path, variables=gpu_host(tmp_path / "gpu"))
    assert done.code == 0, done.stderr
    report = read_json(Report, recipe / "built" / "report.json")
    assert (only(report).status, only(report).target) == (Status.PASSED, "trt")
    assert report.golden == read_json(Report, first / "report.json").golden
    done, report = merged(first, recipe / "built")
    assert (done.code, row(report).status) == (3, Status.PASSED)


def test_a_wrong_engine_fails_whatever_its_host_says(first: Path, recipe: Path, tmp_path: Path) -> None:
    done = by_script(recipe, tmp_path, STANDIN_WRONG="output")
    assert done.returncode == 1
    assert done.stdout.startswith("failed: opt-draw0: output: error 1")
    file = recipe / "result.json"
    said = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(said | {"status": "passed", "reason": ""}), encoding="utf-8")
    done, report = merged(first, recipe)
    trt = row(report)
    assert (done.code, trt.status, trt.stage) == (1, Status.FAILED, "check")
    assert trt.reason.startswith("output output in case ")
    assert not (first / "trt" / "float32" / "model.engine").exists()
    assert not all(check.passed for check in trt.checks)


def test_a_failure_there_is_a_failure_here(first: Path, recipe: Path, tmp_path: Path) -> None:
    by_script(recipe, tmp_path, STANDIN_NO_ENGINE="no tactic fits")
    done, report = merged(first, recipe)
    trt = row(report)
    assert (done.code, trt.status, trt.stage) == (1, Status.FAILED, "build")
    assert trt.reason == f"on {NAME}: no tactic fits"


def edited(recipe: Path, **changes: Any) -> None:
    file = recipe / "result.json"
    said = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(said | changes), encoding="utf-8")


def refusal(first: Path, recipe: Path) -> str:
    """What merging says; it changes nothing."""
    before = (first / "report.json").read_bytes()
    done = run("merge", first, recipe, "-q", cwd=first.parent)
    assert (done.code, done.stdout) == (2, "")
    assert (first / "report.json").read_bytes() == before
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix("convert: ").strip().replace(str(recipe), "COPY").replace(str(first), "OUT")


def test_what_cannot_be_believed_is_refused(first: Path, recipe: Path, tmp_path: Path) -> None:
    assert refusal(first, recipe) == (
        "COPY holds no result (there is no result.json); give the folder that build_engine.py or `convert "
        "build-recipe` wrote into"
    )
    by_script(recipe, tmp_path)
    kept = (recipe / "result.json").read_text(encoding="utf-8")
    copy_again = "since result.json was written; copy the folder again"
    changes: list[tuple[dict[str, Any], str]] = [
        ({"gpu": None}, "COPY/result.json says passed and names no GPU; build the recipe again"),
        ({"engine": None}, "COPY/result.json says passed and names no engine; build the recipe again"),
        ({"result_version": 9}, "COPY/result.json is of version 9, and 1 is read here"),
        ({"status": "fine"}, "COPY/result.json is not what a recipe writes (ValueError); copy the folder again"),
        (
            {"recipe_sha256": "0" * 64},
            "COPY/result.json is of another recipe than those in OUT; give the output folder of the run that made its "
            "recipe",
        ),
        (
            {"outputs": {"a": {"file": "../first/report.json", "sha256": ""}}},
            "COPY/result.json names ../first/report.json, which lies outside of its folder; do not use it",
        ),
    ]
    for change, text in changes:
        edited(recipe, **change)
        assert refusal(first, recipe) == text
        (recipe / "result.json").write_text(kept, encoding="utf-8")
    (recipe / "model.engine").write_bytes(b"another")
    assert refusal(first, recipe) == f"COPY/model.engine was changed {copy_again}"
    (recipe / "outputs" / "opt-draw0.npz").unlink()  # outputs are read first
    assert refusal(first, recipe) == f"COPY/outputs/opt-draw0.npz is missing {copy_again}"


def test_a_case_without_outputs_fails(first: Path, recipe: Path, tmp_path: Path) -> None:
    by_script(recipe, tmp_path)
    outputs = json.loads((recipe / "result.json").read_text(encoding="utf-8"))["outputs"]
    edited(recipe, outputs={case: one for case, one in outputs.items() if case != "max-draw0"})
    done, report = merged(first, recipe)
    assert (done.code, row(report).status) == (1, Status.FAILED)
    assert "max-draw0" in row(report).reason


def test_a_report_whose_cases_were_changed_is_not_merged_into(first: Path, recipe: Path, tmp_path: Path) -> None:
    by_script(recipe, tmp_path)
    (first / "golden" / "opt-draw0.npz").write_bytes(b"")
    assert refusal(first, recipe) == (
        "OUT/golden/opt-draw0.npz was changed since the report was written; take the folder as the run left it"
    )


def test_a_host_without_a_gpu_builds_nothing(first: Path, recipe: Path, tmp_path: Path) -> None:
    done = by_script(recipe, tmp_path, STANDIN_CUINIT="100")
    assert (done.returncode, done.stdout) == (
        1, "failed: the NVIDIA driver finds no usable GPU (cuInit gave 100)\n",
    )  # fmt: skip
    assert refusal(first, recipe) == (
        "COPY/result.json says that the engine could not be built there: the NVIDIA driver finds no usable GPU (cuInit "
        "gave 100)"
    )
    done = run("build-recipe", first, "-q", cwd=tmp_path, variables=gpu_host(tmp_path / "2", STANDIN_CUINIT="100"))
    assert done.code == 1
    assert done.stderr.endswith("cannot be built here: the NVIDIA driver finds no usable GPU (cuInit gave 100)\n")
    (recipe / "model.onnx").write_bytes(b"")
    done = run("build-recipe", recipe, "-q", cwd=tmp_path, variables=gpu_host(tmp_path / "3"))
    assert (done.code, done.stderr) == (
        2, f"convert: {recipe}/model.onnx was changed since the recipe was made; copy the folder again\n",
    )  # fmt: skip

"""The command from end to end: one real run of the digits classifier to every target, and what it leaves."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import py_compile
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import numpy as np
import pytest
from helpers.command import ROOT, python_of, run
from helpers.full_run import FullRun

from convert import __version__
from convert.jobs import Limits, Runner, WorkerPython
from convert.limits import all_limits
from convert.pipeline import exit_code
from convert.records import Artifact, Check, Golden, IoEntry, Status
from convert.report.markdown import render
from convert.serial import from_plain, read_json, to_plain
from convert.targets import load_target
from convert.toolchains import TOOLCHAINS, find
from convert.validators.verdict import Verdict, verdict

toolkit = pytest.mark.toolkit
HAS_GPU = Path("/dev/nvidiactl").exists()
PASSED = (("onnx", "float32"), ("onnx", "float16"), ("tflite", "float32"), ("tflite", "float16"), ("tvm", "float32"))
BATCH = {"N": (1, 4, 16)}
CASES = ("min-draw0", "opt-draw0", "opt-draw1", "max-draw0", "odd-draw0", "edge-zeros", "sample0", "sample3")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


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
        "copy the folder trt/float32 to a host with an NVIDIA GPU and run `python build_engine.py` in it"
    )
    assert (trt.checks, trt.latency) == ((), None)


@toolkit
def test_every_artifact_has_its_one_status(digits_run: FullRun) -> None:
    found = {(one.target, one.precision): one.status for one in digits_run.report.artifacts}
    found.pop(("trt", "float32"))  # depends on the host
    assert found == dict.fromkeys(PASSED, Status.PASSED) | {
        ("tvm", "float16"): Status.SKIPPED,
        ("trt", "float16"): Status.SKIPPED,
    }
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
    assert [one["latency_reason"] for one in report["artifacts"]][0] == "not asked for"
    assert done.stdout.splitlines()[-1] == "report: dist/small/report.json and report.md"


@toolkit
def test_a_table_is_printed(digits_run: FullRun) -> None:
    lines = digits_run.done.stdout.splitlines()
    head = next(place for place, line in enumerate(lines) if line.startswith("target "))
    assert lines[head].split() == "target precision status route error of limit size p50 ms × ort × eager s".split()
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


# The report.


@toolkit
def test_the_report_follows_its_schema(digits_run: FullRun) -> None:
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(digits_run.plain, schema)
    index = json.loads((digits_run.out / "golden" / "index.json").read_text(encoding="utf-8"))
    jsonschema.validate(index, {"$ref": "#/$defs/Golden", "$defs": schema["$defs"]})
    assert index == digits_run.plain["golden"]


@toolkit
def test_the_report_can_be_read_back_without_loss(digits_run: FullRun) -> None:
    assert to_plain(digits_run.report) == digits_run.plain


@toolkit
def test_every_file_is_listed_with_its_hash(digits_run: FullRun) -> None:
    there = {path.relative_to(digits_run.out).as_posix() for path in digits_run.out.rglob("*") if path.is_file()}
    assert {file.path for file in digits_run.report.files} == there - {"report.json"}
    for file in digits_run.report.files:
        path = digits_run.out / file.path
        assert (file.sha256, file.size) == (sha256(path), path.stat().st_size), file.path


@toolkit
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


@toolkit
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


@toolkit
def test_no_path_of_the_work_is_left(digits_run: FullRun) -> None:
    assert not (digits_run.out / "work").exists()
    for path in digits_run.out.rglob("*"):
        if path.is_file() and "logs" not in path.parts and path.suffix != ".so":
            assert b".partial-" not in path.read_bytes(), path


@toolkit
def test_the_markdown_is_the_report(digits_run: FullRun) -> None:
    text = (digits_run.out / "report.md").read_text(encoding="utf-8")
    assert text.startswith("# ExportedProgram\n")
    assert render(digits_run.report) == text


@toolkit
def test_onnx_was_exported_both_ways(digits_run: FullRun) -> None:
    export = digits_run.report.export
    assert (export.status, export.route, export.opset) == (Status.PASSED, "dynamo", 18)
    assert [route.route for route in export.routes] == ["dynamo", "torchscript"]
    assert all((digits_run.out / route.log).is_file() for route in export.routes)
    assert export.dynamic_axes == {"image": ("N", 1, 8, 8), "logits": ("N", 10)}


@toolkit
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
    assert (sizes["min-draw0"], sizes["opt-draw0"], sizes["max-draw0"]) == (1, 4, 16)
    for check in outcome.checks:
        assert (check.output, check.passed) == ("logits", True)
        assert 0 <= check.figure <= check.limit < 1
        assert check.rule
    if precision == "float32":
        draws = [check.limit for check in outcome.checks if "draw" in check.case]
        assert max(draws) < 1e-3


@toolkit
@pytest.mark.parametrize(("target", "precision"), PASSED)
def test_every_passed_artifact_was_timed(digits_run: FullRun, target: str, precision: str) -> None:
    latency = digits_run.outcome(target, precision).latency
    assert latency is not None
    assert (latency.threads, latency.dims) == (1, {"N": 4})
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


@toolkit
@pytest.mark.parametrize(("target", "precision"), PASSED)
def test_every_artifact_has_a_manifest_with_its_interface(digits_run: FullRun, target: str, precision: str) -> None:
    artifact = digits_run.artifact(target, precision)
    outcome = digits_run.outcome(target, precision)
    assert (artifact.target, artifact.precision, artifact.route) == (target, precision, outcome.route.partition("@")[0])
    assert artifact.platform == outcome.platform
    assert artifact.files[0] == {"onnx": "model.onnx", "tflite": "model.tflite", "tvm": "model.so"}[target]
    assert artifact.io == outcome.io
    (image, logits) = artifact.io
    assert (image.source, image.role, image.dtype, logits.source, logits.role) == (
        "image",
        "input",
        "float32",
        "logits",
        "output",
    )
    if target != "tflite":  # whose converters choose names and layouts of their own
        assert image == IoEntry("image", "input", "image", "float32", (-1, 1, 8, 8), source_dtype="float32")
        assert logits == IoEntry("logits", "output", "logits", "float32", (-1, 10), source_dtype="float32")
    manifest = json.loads((digits_run.out / target / precision / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["dims"] == [{"name": "N", "min": 1, "opt": 4, "max": 16}]
    assert manifest["source"] == digits_run.plain["model"]
    assert manifest["versions"]


# The artifacts themselves.


@toolkit
@pytest.mark.parametrize("case", ["opt-draw0", "max-draw0", "sample0"])
@pytest.mark.parametrize(("target", "precision"), PASSED)
def test_an_artifact_works_without_this_project(
    digits_run: FullRun, tmp_path: Path, target: str, precision: str, case: str
) -> None:
    command = [python_of(load_target(target).runtime_toolchain), Path(__file__).parent / "helpers/load_artifact.py"]
    command += [digits_run.out / target / precision, digits_run.out / "golden" / f"{case}.npz"]
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    worst = float(done.stdout.splitlines()[-1])
    assert worst < {"float32": 1e-4, "float16": 0.05}[precision]
    assert worst > 0 or target == "onnx"  # bit for bit would be a sign that nothing was converted


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    folder = tmp_path_factory.mktemp("checks")
    (folder / "logs").mkdir()
    return Runner(folder / "jobs", folder / "logs", Limits(120))


def judge(digits_run: FullRun, checker: Runner, artifact: Artifact, folder: Path) -> Verdict:
    """The real check of the artifact in ``folder``, by its real runtime."""
    environment = find(load_target(artifact.target).runtime_toolchain)
    assert environment is not None
    golden = read_json(Golden, digits_run.out / "golden" / "index.json")
    args = {"artifact": artifact, "folder": folder, "golden": golden, "golden_folder": digits_run.out / "golden"}
    plain = to_plain({key: str(value) if isinstance(value, Path) else value for key, value in args.items()})
    python = WorkerPython(environment.python, own_environment=environment.origin != "current")
    ended = checker.run("check", python, "check", plain | {"threads": 1})
    if not ended.ok:
        return Verdict(False, ended.answer.reason, None)
    return verdict(from_plain(tuple[Check, ...], ended.value["checks"]), golden, frozenset(ended.value["skipped"]))


def copied(digits_run: FullRun, target: str, precision: str, folder: Path) -> tuple[Artifact, Path, Path]:
    """The artifact's record, a copy of its folder, and the main file in it."""
    shutil.copytree(digits_run.out / target / precision, folder / "copy")
    artifact = digits_run.artifact(target, precision)
    return artifact, folder / "copy", folder / "copy" / artifact.files[0]


def largest_weights(data: bytes, dtype: str, count: int) -> tuple[int, np.ndarray[Any, Any]]:
    """Where ``count`` neighbouring numbers lie that look like weights, and the numbers."""
    size = np.dtype(dtype).itemsize
    for start in range(len(data) // 3 // 8 * 8, len(data) - count * size):
        values = np.frombuffer(data, dtype, count, start)
        with np.errstate(all="ignore"):
            if np.isfinite(values).all() and (np.abs(values) > 1e-3).all() and (np.abs(values) < 2).all():
                return start, values
    raise AssertionError("no weights were found")


@toolkit
@pytest.mark.parametrize(
    ("target", "precision", "factor"),
    [
        ("onnx", "float32", 1.02),
        ("tflite", "float32", 1.02),
        ("tvm", "float32", 1.02),
        ("onnx", "float16", -1.0),
        ("tflite", "float16", -1.0),
    ],
)
def test_an_artifact_with_changed_weights_fails(
    digits_run: FullRun, checker: Runner, tmp_path: Path, target: str, precision: str, factor: float
) -> None:
    artifact, folder, file = copied(digits_run, target, precision, tmp_path)
    assert judge(digits_run, checker, artifact, folder).passed
    data = file.read_bytes()
    start, values = largest_weights(data, precision, 32)
    changed = (values * factor).astype(precision).tobytes()
    file.write_bytes(data[:start] + changed + data[start + len(changed) :])
    judged = judge(digits_run, checker, artifact, folder)
    assert not judged.passed
    assert judged.worst is not None
    assert judged.worst.figure > judged.worst.limit


@toolkit
@pytest.mark.parametrize(("target", "precision"), [("onnx", "float32"), ("tflite", "float32"), ("tvm", "float32")])
@pytest.mark.parametrize("left", [0, 1000])
def test_an_artifact_that_was_cut_short_fails(
    digits_run: FullRun, checker: Runner, tmp_path: Path, target: str, precision: str, left: int
) -> None:
    artifact, folder, file = copied(digits_run, target, precision, tmp_path)
    file.write_bytes(file.read_bytes()[:left])
    judged = judge(digits_run, checker, artifact, folder)
    assert not judged.passed
    assert judged.reason


@toolkit
def test_an_artifact_that_is_not_there_fails(digits_run: FullRun, checker: Runner, tmp_path: Path) -> None:
    artifact, folder, file = copied(digits_run, "onnx", "float32", tmp_path)
    file.unlink()
    assert not judge(digits_run, checker, artifact, folder).passed


@toolkit
def test_another_model_of_the_same_interface_fails(digits_run: FullRun, checker: Runner, tmp_path: Path) -> None:
    artifact, folder, file = copied(digits_run, "onnx", "float32", tmp_path)
    shutil.copy(digits_run.out / "onnx" / "float16" / "model.onnx", file)
    judged = judge(digits_run, checker, artifact, folder)  # float16 does not hold the limits of float32
    assert not judged.passed


# The recipe for a GPU host.


@pytest.fixture
def recipe(digits_run: FullRun) -> Path:
    if HAS_GPU:
        pytest.skip("an engine was made instead")
    return digits_run.out / "trt" / "float32"


@pytest.fixture
def script(recipe: Path) -> Iterator[ModuleType]:
    """The recipe's own script, as a module."""
    spec = importlib.util.spec_from_file_location("build_engine_of_the_recipe", recipe / "build_engine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    spec.loader.exec_module(module)
    yield module
    sys.dont_write_bytecode = before


@toolkit
def test_a_recipe_is_whole(digits_run: FullRun, recipe: Path, tmp_path: Path) -> None:
    said = json.loads((recipe / "recipe.json").read_text(encoding="utf-8"))
    there = {path.relative_to(recipe).as_posix() for path in recipe.rglob("*") if path.is_file()}
    assert set(said["sha256"]) == there - {"recipe.json", "manifest.json"}
    assert {name: sha256(recipe / name) for name in said["sha256"]} == said["sha256"]
    assert (recipe / said["onnx"]).read_bytes()
    assert said["profiles"] == {
        "image": {"min": [1, 1, 8, 8], "opt": [4, 1, 8, 8], "max": [16, 1, 8, 8]},
    }
    assert (said["inputs"], said["outputs"]) == (["image"], ["logits"])
    golden = digits_run.report.golden
    assert [case["name"] for case in said["cases"]] == [case.name for case in golden.cases]
    assert said["latency_case"] in [case["name"] for case in said["cases"]]
    limits = all_limits(golden, digits_run.out / "golden", "float32", load_target("trt").tolerance.floors)
    assert {case["name"]: case["limits"] for case in said["cases"]} == limits
    py_compile.compile(str(recipe / "build_engine.py"), cfile=str(tmp_path / "compiled.pyc"), doraise=True)


@toolkit
def test_a_recipe_needs_nothing_of_this_project(recipe: Path) -> None:
    tree = ast.parse((recipe / "build_engine.py").read_text(encoding="utf-8"))
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) == {"numpy", "tensorrt", "torch"}


@toolkit
def test_a_recipe_takes_what_is_right_and_refuses_what_is_wrong(recipe: Path, script: ModuleType) -> None:
    said = json.loads((recipe / "recipe.json").read_text(encoding="utf-8"))
    case = next(case for case in said["cases"] if case["name"] == "opt-draw0")
    with np.load(recipe / "golden" / case["file"], allow_pickle=False) as stored:
        golden = {name: stored[name] for name in stored.files}
    right, limit = golden["out:logits"], case["limits"]["logits"]["max_error"]

    def wrong(value: Any) -> list[str]:
        return list(script.compare({} if value is None else {"logits": value}, golden, case["limits"]))

    def at_one_place(value: float) -> Any:
        changed = right.copy()
        changed[1, 2] = value
        return changed

    assert wrong(right) == []
    assert wrong(at_one_place(right[1, 2] + limit / 4)) == []
    for value in (right[1, 2] + 3 * limit, right[1, 2] - 3 * limit):
        (text,) = wrong(at_one_place(value))
        assert text.startswith("logits: error ")
        assert f"(limit {limit:.3g})" in text
    for value in (np.nan, np.inf, -np.inf):
        assert wrong(at_one_place(value)) == ["logits: NaN or infinity in other places than in the source"]
    odd = ["logits: missing, or another shape or dtype than float32[4, 10]"]
    assert wrong(None) == odd
    assert wrong(right[:3]) == odd
    assert wrong(right.T) == odd
    assert wrong(right.astype(np.float64)) == odd
    assert wrong(np.zeros_like(right)) != []


@toolkit
def test_a_parser_has_looked_at_the_recipe(digits_run: FullRun, recipe: Path) -> None:
    del recipe
    notes = [note for note in digits_run.outcome("trt", "float32").notes if note.startswith("parser gate")]
    if find("trt-rtx") is None:
        assert notes == [
            "parser gate not run: the toolchain trt-rtx is not installed; get it with `convert toolchain install "
            "trt-rtx`"
        ]
    else:
        (note,) = notes
        assert re.fullmatch(
            r"parser gate passed: TensorRT for RTX [\d.]+ parses the graph and builds it for SM86; not run", note
        )


# A toolchain that is missing.


@toolkit
def test_a_missing_toolchain_is_a_failure_that_says_how_to_get_it(small_onnx: Path, tmp_path: Path) -> None:
    variables = {"CONVERT_CACHE": tmp_path / "cache", "CONVERT_PYTHON_TVM": "", "CONVERT_PYTHON_CORE": python_of("core")}
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
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()[1:]}
    assert {"click", "convert"} <= loaded
    assert loaded & {"numpy", "rich", "torch", "onnx", "psutil", "filelock", "asyncio", "tensorflow", "tvm"} == set()


def test_targets_are_listed(tmp_path: Path) -> None:
    done = run("targets", cwd=tmp_path)
    assert (done.code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["target", "ready", "precisions", "routes", "versions", "missing"]
    assert [line.split()[0] for line in lines[1:] if line[:1].strip()] == ["onnx", "tflite", "tvm", "trt"]


def test_what_a_target_lacks_is_said_with_the_command(tmp_path: Path) -> None:
    variables = {"CONVERT_CACHE": tmp_path / "empty", "CONVERT_PYTHON_TVM": "", "CONVERT_PYTHON_TRT": ""}
    done = run("targets", cwd=tmp_path, variables=variables)
    rows = {line.split()[0]: line for line in done.stdout.splitlines()[1:]}
    assert rows["tvm"].split()[1] == "no"
    assert rows["tvm"].rstrip().endswith("toolchain tvm: convert toolchain install tvm")
    assert not (tmp_path / "empty").exists()


def test_toolchains_are_listed(tmp_path: Path) -> None:
    variables = {"CONVERT_CACHE": tmp_path / "empty"} | {
        f"CONVERT_PYTHON_{name.upper().replace('-', '_')}": "" for name in TOOLCHAINS if name != "core"
    }
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

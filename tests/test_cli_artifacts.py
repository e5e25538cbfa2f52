"""The artifacts of the digits classifier work without this project, and damaged ones are found out."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.command import python_of
from helpers.full_run import PASSED, FullRun
from helpers.weights import largest_weights

from convert.context import Context
from convert.jobs import Limits, Runner
from convert.options import Options
from convert.records import Artifact, Golden, Kind, ModelRef
from convert.serial import read_json
from convert.steps.prove import prove
from convert.targets import load_target
from convert.validators.verdict import Verdict

pytestmark = pytest.mark.toolkit


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
def checker(digits_run: FullRun, tmp_path_factory: pytest.TempPathFactory) -> Context:
    """What the check step of the run had, with other places for its work and logs."""
    folder = tmp_path_factory.mktemp("checks")
    (folder / "logs").mkdir()
    ref = ModelRef(digits_run.report.model["path"], Kind.EXPORTED)
    options = Options(ref, (), (), (), (), None, None, folder, 120, None, 1, 1, 0, allow_deferred=False)
    return Context(options, digits_run.out, Runner(folder / "jobs", folder / "logs", Limits(120)))


def judge(context: Context, artifact: Artifact, folder: Path) -> Verdict:
    """The real check of the artifact in ``folder``, by its real runtime."""
    golden = read_json(Golden, context.golden_folder / "index.json")
    return prove(context, "again", artifact, folder, golden, lambda text: None).verdict


def copied(digits_run: FullRun, target: str, precision: str, folder: Path) -> tuple[Artifact, Path, Path]:
    """The artifact's record, a copy of its folder, and the main file in it."""
    shutil.copytree(digits_run.out / target / precision, folder / "copy")
    artifact = digits_run.artifact(target, precision)
    return artifact, folder / "copy", folder / "copy" / artifact.files[0]


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
    digits_run: FullRun, checker: Context, tmp_path: Path, target: str, precision: str, factor: float
) -> None:
    artifact, folder, file = copied(digits_run, target, precision, tmp_path)
    assert judge(checker, artifact, folder).passed
    data = file.read_bytes()
    start, values = largest_weights(data, precision, 32)
    changed = (values * factor).astype(precision).tobytes()
    file.write_bytes(data[:start] + changed + data[start + len(changed) :])
    judged = judge(checker, artifact, folder)
    assert not judged.passed
    assert judged.worst is not None
    assert judged.worst.figure > judged.worst.limit


@pytest.mark.parametrize(("target", "precision"), [("onnx", "float32"), ("tflite", "float32"), ("tvm", "float32")])
@pytest.mark.parametrize("left", [0, 1000])
def test_an_artifact_that_was_cut_short_fails(
    digits_run: FullRun, checker: Context, tmp_path: Path, target: str, precision: str, left: int
) -> None:
    artifact, folder, file = copied(digits_run, target, precision, tmp_path)
    file.write_bytes(file.read_bytes()[:left])
    judged = judge(checker, artifact, folder)
    assert not judged.passed
    assert judged.reason


def test_an_artifact_that_is_not_there_fails(digits_run: FullRun, checker: Context, tmp_path: Path) -> None:
    artifact, folder, file = copied(digits_run, "onnx", "float32", tmp_path)
    file.unlink()
    assert not judge(checker, artifact, folder).passed


def test_another_model_of_the_same_interface_fails(digits_run: FullRun, checker: Context, tmp_path: Path) -> None:
    artifact, folder, file = copied(digits_run, "onnx", "float32", tmp_path)
    shutil.copy(digits_run.out / "onnx" / "float16" / "model.onnx", file)
    judged = judge(checker, artifact, folder)  # float16 does not hold the limits of float32
    assert not judged.passed

"""Artifacts for arm64 that are wrong: under emulation each is found out, with one sentence, and none is kept."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import command, options, tvm_module
from helpers.places import core_with
from helpers.platform_run import PlatformRun, installed
from helpers.weights import largest_weights

from convert.context import Context
from convert.jobs import Limits, Runner
from convert.platforms import host_platform
from convert.records import Artifact, Golden, Proven
from convert.serial import read_json
from convert.steps.places import Where
from convert.steps.prove import Proof, prove

pytestmark = [
    pytest.mark.toolkit,
    pytest.mark.skipif(host_platform() != "linux/amd64", reason="arm64 is emulated on x86-64 only"),
]

ARM = "linux/arm64"
SIGILL = "the program ended by SIGILL (an illegal instruction: it needs a CPU feature that is not there)"
#: LLVM's name of a CPU with vectors of any length, which the stand-in for the default CPU lacks.
WITH_SVE = "neoverse-v1"

Judge = Callable[..., Proof]


@pytest.fixture(scope="module")
def judge(arm64_run: PlatformRun, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """The real check step of the run, on the files of another folder."""
    folder = tmp_path_factory.mktemp("checks")
    (folder / "logs").mkdir()
    context = Context(options.make(), arm64_run.out, Runner(folder / "jobs", folder / "logs", Limits(120)))
    golden = read_json(Golden, context.golden_folder / "index.json")

    def look(artifact: Artifact, place: Path, cpu: str = "cortex-a53") -> Proof:
        args = {"kind": "emulated", "platform": ARM, "cpu": cpu}
        where = Where(ARM, args, Proven("emulated", f"qemu-user as {cpu}"))
        return prove(context, "again", artifact, place, golden, lambda text: None, where)

    return look


def copied(run: PlatformRun, target: str, folder: Path) -> tuple[Artifact, Path]:
    """The artifact's record, and the main file in a copy of its folder."""
    artifact = run.artifact(target, ARM)
    shutil.copytree(run.folder(target, ARM), folder / "copy")
    return artifact, folder / "copy" / artifact.files[0]


@pytest.fixture(scope="module")
def with_sve(arm64_run: PlatformRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model, compiled for a CPU that has more than the one it is proven on."""
    file = tmp_path_factory.mktemp("sve") / "model.so"
    graph = arm64_run.folder("onnx", host_platform()) / "model.onnx"
    return tvm_module.build(graph, file, ARM, WITH_SVE, installed().zig)


def changed(data: bytes) -> bytes:
    start, values = largest_weights(data, "float32", 32)
    wrong = (values * 1.02).astype("float32").tobytes()
    return data[:start] + wrong + data[start + len(wrong) :]


@pytest.mark.parametrize("target", ["onnx", "tflite", "tvm"])
def test_wrong_weights_fail(arm64_run: PlatformRun, judge: Judge, tmp_path: Path, target: str) -> None:
    artifact, file = copied(arm64_run, target, tmp_path)
    if target == "tvm":
        graph = tmp_path / "wrong.onnx"
        graph.write_bytes(changed((arm64_run.folder("onnx", host_platform()) / "model.onnx").read_bytes()))
        tvm_module.build(graph, tmp_path / "made/model.so", ARM, "generic", installed().zig).replace(file)
    else:
        file.write_bytes(changed(file.read_bytes()))
    proof = judge(artifact, file.parent)
    worst = proof.verdict.worst
    assert not proof.verdict.passed
    assert worst is not None
    assert worst.figure > worst.limit
    assert "output" in proof.verdict.reason
    assert proof.notes == ()  # nothing is called proven
    assert len({check.case for check in proof.checks if not check.passed}) > 1


def test_code_for_another_cpu_is_found_out(
    arm64_run: PlatformRun, judge: Judge, with_sve: Path, tmp_path: Path
) -> None:
    artifact, file = copied(arm64_run, "tvm", tmp_path)
    shutil.copyfile(with_sve, file)
    proof = judge(artifact, file.parent)
    assert not proof.verdict.passed
    assert SIGILL in proof.verdict.reason
    assert "\n" not in proof.verdict.reason
    # Nothing else is wrong with it: a CPU that has the feature runs it.
    assert judge(artifact, file.parent, "max").verdict.passed


def test_what_it_lacks_is_told_by_the_whole_pipeline(arm64_run: PlatformRun, with_sve: Path, tmp_path: Path) -> None:
    """As if the build had made code for another CPU than it was asked for."""
    swap = (
        "import json, shutil, sys; folder = json.load(open(sys.argv[2]))['args']['folder']; "
        "shutil.copyfile(sys.argv[1], folder + '/model.so')"
    )
    words = [command.python_of("core"), "-c", swap, with_sve]
    call = " ".join(shlex.quote(str(word)) for word in words)
    core = core_with(tmp_path, {"cortex-a53": f'{call} "$4"'})  # only the check knows what it is emulated as
    (tmp_path / "cwd").mkdir()
    graph = arm64_run.folder("onnx", host_platform()) / "model.onnx"
    # Of one size, or there would be another way to build it.
    asked = ["-t", "tvm", "--platform", ARM, "--dim", "N=3", "--out", "out"]
    done = command.run(graph, *asked, cwd=tmp_path / "cwd", variables=core)
    assert done.code == 1, done.stderr
    out = tmp_path / "cwd/out"
    (found,) = json.loads((out / "report.json").read_text(encoding="utf-8"))["artifacts"]
    assert (found["status"], found["stage"], found["files"], found["latency"]) == ("failed", "check", [], None)
    assert SIGILL in found["reason"]
    assert f"tvm {ARM}  float32    failed" in done.stdout
    assert not any("proven" in text for text in (*found["notes"], found["latency_reason"]))
    assert not (out / "linux-arm64").exists()
    assert [path.name for path in out.rglob("*") if path.suffix == ".so" or path.name == "manifest.json"] == []


def test_a_library_for_this_host_is_named(arm64_run: PlatformRun, judge: Judge, tmp_path: Path) -> None:
    artifact, file = copied(arm64_run, "tvm", tmp_path)
    shutil.copyfile(arm64_run.folder("tvm", host_platform()) / "model.so", file)
    proof = judge(artifact, file.parent)
    assert not proof.verdict.passed
    assert proof.verdict.reason == "emulation of cortex-a53: model.so is for amd64, not for linux/arm64"


@pytest.mark.parametrize("left", [0.99, 0.5, 0.0])
def test_a_library_that_was_cut_short_is_named(
    arm64_run: PlatformRun, judge: Judge, tmp_path: Path, left: float
) -> None:
    artifact, file = copied(arm64_run, "tvm", tmp_path)
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * left)])
    proof = judge(artifact, file.parent)
    why = "is cut short: the end of the file is missing" if left else "is no shared library"
    assert not proof.verdict.passed
    assert proof.verdict.reason == f"emulation of cortex-a53: model.so {why}"


@pytest.mark.parametrize("target", ["onnx", "tflite"])
def test_another_file_that_was_cut_short_fails(
    arm64_run: PlatformRun, judge: Judge, tmp_path: Path, target: str
) -> None:
    artifact, file = copied(arm64_run, target, tmp_path)
    file.write_bytes(file.read_bytes()[:1000])
    proof = judge(artifact, file.parent)
    assert not proof.verdict.passed
    assert proof.verdict.reason.startswith("emulation of cortex-a53: ")
    assert "\n" not in proof.verdict.reason

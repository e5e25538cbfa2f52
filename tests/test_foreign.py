"""What becomes of an artifact of this host on another platform, with a check that says what the test wants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import options

from convert.context import Context, ToolchainMissing
from convert.jobs import Limits, Runner
from convert.records import Artifact, Check, Latency, Outcome, Proven, Status
from convert.steps import foreign
from convert.steps.bench import bench_all
from convert.steps.foreign import carry
from convert.steps.job import Built, Job
from convert.steps.places import Where
from convert.steps.prove import Proof
from convert.targets import load_target
from convert.validators.verdict import Verdict

ARM = Where("linux/arm64", {"kind": "emulated"}, Proven("emulated", "qemu-user as cortex-a53"))
NEITHER = Where("linux/riscv64", nowhere="no runtime is published for it")
IN_PART = replace(ARM, platform="android/arm64", unproven="its loader was not tried")
CHECK = Check("opt-draw0", "y", "rule", 1e-6, 1e-5, passed=True)
LATENCY = Latency(1, {}, 1, 1, 1, 1, 1, 1, 1, None, None)
RIGHT = Verdict(True, "", CHECK)
WRONG = Verdict(False, "y is 0.3 off", replace(CHECK, passed=False))


def job_of(folder: Path, where: Where, target: str = "onnx", precision: str = "float32") -> Job:
    context = Context(options.make(), folder, Runner(folder / "jobs", folder / "logs", Limits(1)))
    return Job(context, None, (), "", load_target(target), precision, lambda text: None, where=where)  # type: ignore[arg-type]


def made_here(folder: Path, status: Status = Status.PASSED) -> Built:
    """An artifact of this host, with its file."""
    here = folder / "onnx/float32"
    here.mkdir(parents=True)
    (here / "model.onnx").write_bytes(b"weights")
    own = (replace(CHECK, case="here"),)
    outcome = Outcome(
        "onnx", "float32", "linux/amd64", status, "check", "", route="export", checks=own, latency=LATENCY
    )
    return Built(outcome, Artifact("onnx", "float32", "export", ("model.onnx",), ()), here)


@pytest.fixture
def verdict(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the next check says; it notes the platforms and files that it was asked about."""
    says: list[Any] = [RIGHT]

    def prove(_: Context, name: str, artifact: Artifact, folder: Path, *rest: Any) -> Proof:
        assert name == f"onnx-{artifact.precision}-{artifact.platform.replace('/', '-')}"
        assert (folder / "model.onnx").read_bytes() == b"weights"
        assert rest[-1].platform == artifact.platform
        if isinstance(says[0], Exception):
            raise says[0]
        return Proof(says[0], (CHECK,), ("a note",), folder / "log")

    monkeypatch.setattr(foreign, "prove", prove)
    return says


@pytest.mark.usefixtures("verdict")
def test_what_passed_here_is_proven_there_too(tmp_path: Path) -> None:
    made = made_here(tmp_path)
    found = carry(job_of(tmp_path, ARM), made)
    outcome = found.outcome
    assert (outcome.status, outcome.stage, outcome.platform) == (Status.PASSED, "check", "linux/arm64")
    assert (outcome.proven, outcome.checks, outcome.notes) == (ARM.proven, (CHECK,), ("a note",))
    assert outcome.latency is None  # that of this host says nothing about another machine
    assert found.folder == tmp_path / "linux-arm64/onnx/float32"
    assert (found.folder / "model.onnx").read_bytes() == b"weights"
    assert found.artifact is not None
    assert found.artifact.platform == "linux/arm64"
    assert (tmp_path / "onnx/float32/model.onnx").is_file()  # this host keeps its own


@pytest.mark.usefixtures("verdict")
def test_what_can_be_proven_in_part_is_deferred(tmp_path: Path) -> None:
    found = carry(job_of(tmp_path, IN_PART), made_here(tmp_path))
    assert (found.outcome.status, found.outcome.reason) == (Status.DEFERRED, "its loader was not tried")
    assert found.outcome.checks == (CHECK,)
    assert found.folder is not None


def test_what_can_be_proven_nowhere_is_deferred_without_a_check(tmp_path: Path, verdict: list[Any]) -> None:
    verdict[0] = AssertionError("it was checked")
    found = carry(job_of(tmp_path, NEITHER), made_here(tmp_path))
    assert (found.outcome.status, found.outcome.proven) == (Status.DEFERRED, None)
    assert found.outcome.reason == "it was made but not proven: no runtime is published for it"
    assert found.outcome.advice == "prove it on such a machine: run the same command with --device"
    assert found.outcome.checks == ()  # those of this host are none of another platform
    assert found.folder is not None


@pytest.mark.parametrize("wrong", [WRONG, ToolchainMissing("the toolchain core is not installed")])
def test_what_fails_there_leaves_nothing_to_be_taken_for_passed(wrong: Any, tmp_path: Path, verdict: list[Any]) -> None:
    verdict[0] = wrong
    found = carry(job_of(tmp_path, ARM), made_here(tmp_path))
    stage, reason = ("check", WRONG.reason) if wrong is WRONG else ("toolchain", str(wrong))
    assert (found.outcome.status, found.outcome.stage, found.outcome.reason) == (Status.FAILED, stage, reason)
    assert [(one.route, one.status, one.reason) for one in found.outcome.routes] == [("export", Status.FAILED, reason)]
    assert (found.artifact, found.folder) == (None, None)
    assert list((tmp_path / "linux-arm64").rglob("*.onnx")) == []
    assert (tmp_path / "onnx/float32/model.onnx").is_file()


@pytest.mark.parametrize("status", [Status.FAILED, Status.DEFERRED])
def test_what_did_not_pass_here_passes_nowhere(status: Status, tmp_path: Path, verdict: list[Any]) -> None:
    verdict[0] = AssertionError("it was checked")
    made = made_here(tmp_path, status)
    found = carry(job_of(tmp_path, ARM), replace(made, outcome=replace(made.outcome, reason="why")))
    assert (found.outcome.status, found.outcome.reason, found.outcome.platform) == (status, "why", "linux/arm64")
    assert (found.folder is None) == (status is Status.FAILED)
    assert (tmp_path / "linux-arm64").exists() == (status is Status.DEFERRED)


def test_there_may_be_none_of_a_target_on_a_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(load_target("onnx")), "not_on", ("linux/arm64",))
    found = carry(job_of(tmp_path, ARM), made_here(tmp_path))
    assert (found.outcome.status, found.outcome.reason) == (Status.SKIPPED, "there is no onnx on linux/arm64")
    assert found.folder is None


@pytest.mark.usefixtures("verdict")
def test_quality_was_measured_here(tmp_path: Path) -> None:
    made = made_here(tmp_path)
    assert made.artifact is not None
    made = replace(made, artifact=replace(made.artifact, precision="int8"))
    found = carry(job_of(tmp_path, ARM, precision="int8"), made)
    assert found.outcome.notes == ("a note", "its quality on real data was measured on this host")


def test_only_what_is_proven_is_called_so_where_nothing_is_timed(tmp_path: Path, verdict: list[Any]) -> None:
    right = carry(job_of(tmp_path, ARM), made_here(tmp_path / "a"))
    verdict[0] = WRONG
    (tmp_path / "b").mkdir()
    wrong = carry(job_of(tmp_path / "b", ARM), made_here(tmp_path / "b"))
    context = job_of(tmp_path, ARM).context
    timed = bench_all(context, None, (), [right, wrong], [ARM], lambda text: None)  # type: ignore[arg-type]
    assert [one.outcome.latency for one in timed] == [None, None]
    assert timed[0].outcome.latency_reason == "emulated: numbers proven, latency not measured"
    assert timed[1].outcome.latency_reason == ""

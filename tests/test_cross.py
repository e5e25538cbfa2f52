"""Platforms that nothing here can run, or not in full: what is made for them, and that none of it is called passed."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from helpers import command, elf_files, platform_run
from helpers.platform_run import PlatformRun

from convert.platforms import EMULATED, PLATFORMS
from convert.records import Proven, Status

pytestmark = pytest.mark.toolkit

ANDROID, ARM32, RISCV = "android/arm64", "linux/arm/v7", "linux/riscv64"
UNPROVEN = "it was made but not proven: "
#: Functions that Android's C and mathematics libraries have, of those that compiled kernels call.
BIONIC = {"memcpy", "memset", "memmove", "expf", "tanhf", "erff", "powf", "logf", "floorf", "ceilf", "roundf", "truncf"}
#: What the runtime brings.
TVM = "TVMFFI"


@pytest.fixture(scope="module")
def cross_run(tmp_path_factory: pytest.TempPathFactory) -> PlatformRun:
    platform_run.installed()
    return platform_run.make(tmp_path_factory.mktemp("cross"), "tvm", f"{ANDROID},{ARM32},{RISCV}")


def test_without_leave_deferred_is_exit_code_3(cross_run: PlatformRun) -> None:
    assert cross_run.done.code == cross_run.report.exit_code == 3, cross_run.done.stderr
    assert {one.status for one in cross_run.report.artifacts} == {Status.DEFERRED}
    assert len(cross_run.report.artifacts) == 3


def test_with_leave_it_is_0(small_onnx: Path, tmp_path: Path) -> None:
    platform_run.installed()
    done = command.run(small_onnx, "-t", "tvm", "--platform", RISCV, "--allow-deferred", "--out", "out", cwd=tmp_path)
    assert done.code == 0, done.stderr
    (artifact,) = json.loads((tmp_path / "out/report.json").read_text(encoding="utf-8"))["artifacts"]
    assert artifact["status"] == "deferred"


@pytest.mark.parametrize("platform", [ARM32, RISCV])
def test_without_a_runtime_nothing_is_claimed(cross_run: PlatformRun, platform: str) -> None:
    outcome = cross_run.outcome("tvm", platform)
    assert (outcome.status, outcome.stage) == (Status.DEFERRED, "check")
    assert outcome.reason == UNPROVEN + PLATFORMS[platform].no_runtime
    assert outcome.advice == "prove it on such a machine: run the same command with --device"
    assert (outcome.checks, outcome.proven, outcome.latency) == ((), None, None)
    assert not any("proven" in note for note in outcome.notes)
    manifest = cross_run.manifest("tvm", platform)
    assert (manifest["status"], manifest["proven"], manifest["platform"]) == ("deferred", None, platform)


def test_android_is_proven_in_part(cross_run: PlatformRun) -> None:
    outcome = cross_run.outcome("tvm", ANDROID)
    assert (outcome.status, outcome.reason) == (Status.DEFERRED, PLATFORMS[ANDROID].unproven)
    assert outcome.proven == Proven("emulated", "qemu-user as cortex-a53")
    assert outcome.checks
    assert all(check.passed for check in outcome.checks)
    assert (outcome.latency, outcome.latency_reason) == (None, EMULATED)
    assert cross_run.manifest("tvm", ANDROID)["status"] == "deferred"


@pytest.mark.parametrize(
    ("platform", "told"),
    [
        (ANDROID, f"artifacts stay unproven in part: {PLATFORMS[ANDROID].unproven}"),
        (ARM32, f"artifacts are made but not proven: {PLATFORMS[ARM32].no_runtime}"),
        (RISCV, f"artifacts are made but not proven: {PLATFORMS[RISCV].no_runtime}"),
    ],
)
def test_what_cannot_be_had_is_said_before_anything_is_built(cross_run: PlatformRun, platform: str, told: str) -> None:
    lines = [" ".join(line.split()) for line in cross_run.done.stderr.splitlines()]
    assert lines.index(f"{platform} {told}") < next(
        place for place, line in enumerate(lines) if line.startswith("export ") or "building" in line
    )


@pytest.mark.parametrize(
    ("platform", "machine", "wide"), [(ANDROID, 183, True), (ARM32, 40, False), (RISCV, 243, True)]
)
def test_the_library_is_for_the_machine(cross_run: PlatformRun, platform: str, machine: int, wide: bool) -> None:
    found = elf_files.read(cross_run.folder("tvm", platform) / "model.so")
    assert (found.machine, found.wide) == (machine, wide)
    assert cross_run.manifest("tvm", platform)["settings"]["target"]["mtriple"] == PLATFORMS[platform].triple
    if platform == ARM32:
        assert found.flags & 0x400  # arguments travel in the registers of the floating point unit
        assert not found.flags & 0x200
    if platform == RISCV:
        assert found.flags & 0x6 == 0x4  # the same, of 64 bits


def test_android_gets_what_its_loader_takes(cross_run: PlatformRun) -> None:
    found = elf_files.read(cross_run.folder("tvm", ANDROID) / "model.so")
    assert set(found.needed) == {"libc.so", "libm.so"}
    assert found.alignments
    assert set(found.alignments) == {0x4000}
    assert not found.versioned  # GLIBC_2.17 and the like
    assert {"memcpy", "expf"} <= found.undefined
    assert {name for name in found.undefined if not name.startswith(TVM)} <= BIONIC


def test_glibc_is_asked_for_where_there_is_one(cross_run: PlatformRun) -> None:
    """Or the test before would hold of every file."""
    found = elf_files.read(cross_run.folder("tvm", RISCV) / "model.so")
    assert found.versioned
    assert set(found.needed) == {"libc.so.6", "libm.so.6"}


def test_android_gets_the_objects_too(cross_run: PlatformRun) -> None:
    folder = cross_run.folder("tvm", ANDROID)
    assert cross_run.artifact("tvm", ANDROID).files == ("model.so", "model.tar")
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "model.so", "model.tar"]
    with tarfile.open(folder / "model.tar") as archive:
        heads = {one.name: archive.extractfile(one) for one in archive.getmembers()}
        assert heads
        for name, file in heads.items():
            assert file is not None
            head = file.read(20)
            assert (name.endswith(".o"), head[:4], head[18]) == (True, b"\x7fELF", 183)

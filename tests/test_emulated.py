"""Artifacts for arm64 under emulation, from the command line to a session: what is proven, and what is not said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import elf_files, graphs
from helpers.platform_run import PlatformRun

from convert.golden_io import load_case
from convert.platforms import EMULATED, host_platform
from convert.records import Golden, Proven, Status
from convert.remote.opening import open_in
from convert.serial import read_json

pytestmark = [
    pytest.mark.toolkit,
    pytest.mark.skipif(host_platform() != "linux/amd64", reason="arm64 is emulated on x86-64 only"),
]

TARGETS = ("onnx", "tflite", "tvm")
ARM, HOST = "linux/arm64", "linux/amd64"
PLACE = {"kind": "emulated", "platform": ARM, "cpu": "cortex-a53"}


def test_all_of_it_passed(arm64_run: PlatformRun) -> None:
    assert arm64_run.done.code == 0, arm64_run.done.stderr
    found = {(one.target, one.platform): one.status for one in arm64_run.report.artifacts}
    assert found == {(target, platform): Status.PASSED for target in TARGETS for platform in (HOST, ARM)}


@pytest.mark.parametrize("target", TARGETS)
def test_it_is_marked_as_emulated(arm64_run: PlatformRun, target: str) -> None:
    outcome = arm64_run.outcome(target, ARM)
    assert outcome.proven == Proven("emulated", "qemu-user as cortex-a53")
    assert f"{EMULATED} (qemu-user as cortex-a53)" in outcome.notes
    manifest = arm64_run.manifest(target, ARM)
    assert manifest["proven"] == {"how": "emulated", "place": "qemu-user as cortex-a53", "device": None}
    assert (manifest["platform"], manifest["status"]) == (ARM, "passed")
    golden = read_json(Golden, arm64_run.out / "golden/index.json")
    assert {check.case for check in outcome.checks} == {case.name for case in golden.cases}
    assert arm64_run.outcome(target, HOST).proven is None
    assert arm64_run.manifest(target, HOST)["proven"] is None


@pytest.mark.parametrize("target", TARGETS)
def test_only_this_host_has_a_latency(arm64_run: PlatformRun, target: str) -> None:
    emulated, here = arm64_run.plain(target, ARM), arm64_run.plain(target, HOST)
    assert (emulated["latency"], emulated["latency_reason"]) == (None, EMULATED)
    assert here["latency"]["p50_ms"] > 0
    assert here["latency_reason"] == ""
    assert "p50" not in json.dumps(emulated)
    lines = arm64_run.done.stdout.splitlines()
    row = next(line.split() for line in lines if line.startswith(f"{target} {ARM} "))
    assert row[-4:-1] == ["–", "–", "–"]
    notes = [line for line in lines if line.startswith(f"{target} {ARM} float32: ")]
    assert f"{target} {ARM} float32: {EMULATED} (qemu-user as cortex-a53)" in notes
    assert not any("latency:" in line for line in notes)


def test_it_is_said_before_anything_is_built(arm64_run: PlatformRun) -> None:
    lines = arm64_run.done.stderr.splitlines()
    said = next(place for place, line in enumerate(lines) if line.split() == [ARM, *_words("qemu-user as cortex-a53")])
    assert said < min(place for place, line in enumerate(lines) if "export" in line or "building" in line)


def _words(place: str) -> list[str]:
    return f"{EMULATED} ({place})".split()


def test_the_files_are_those_of_the_platform(arm64_run: PlatformRun) -> None:
    folder = arm64_run.folder("tvm", ARM)
    assert folder == arm64_run.out / "linux-arm64/tvm/float32"
    libraries = ["libtvm_ffi.so", "libtvm_runtime.so", "model.so"]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*libraries, "manifest.json"])
    assert arm64_run.artifact("tvm", ARM).files == ("model.so", "libtvm_runtime.so", "libtvm_ffi.so")
    assert {elf_files.read(folder / name).machine for name in libraries} == {0xB7}
    assert elf_files.read(arm64_run.folder("tvm", HOST) / "model.so").machine == 0x3E
    recorded = {file.path for file in arm64_run.outcome("tvm", ARM).files}
    assert recorded == {f"linux-arm64/tvm/float32/{name}" for name in (*libraries, "manifest.json")}
    for target, file in (("onnx", "model.onnx"), ("tflite", "model.tflite")):
        emulated, here = arm64_run.folder(target, ARM) / file, arm64_run.folder(target, HOST) / file
        assert emulated.read_bytes() == here.read_bytes()  # nothing was made anew that would need another proof


@pytest.mark.parametrize("target", TARGETS)
def test_a_session_gives_the_outputs_of_the_source_at_any_size(arm64_run: PlatformRun, target: str) -> None:
    golden_folder = arm64_run.out / "golden"
    golden = read_json(Golden, golden_folder / "index.json")
    cases = {case.name: case for case in golden.cases}
    session = open_in(PLACE, arm64_run.artifact(target, ARM), arm64_run.folder(target, ARM), 1)
    try:
        for name in ("min-draw0", "odd-draw0", "opt-draw0", "sample0"):
            data = load_case(golden_folder, cases[name])
            _assert_near(session.run(data.feeds), data.outputs)
        feeds = {"image": np.random.default_rng(0).random((5, 1, 8, 8), np.float32)}
        (wanted,) = graphs.run(arm64_run.folder("onnx", HOST) / "model.onnx", feeds)
        _assert_near(session.run(feeds), {"output": wanted})
        assert len(session.times(2)) == 2
        assert session.peak_memory() > 1 << 20
    finally:
        session.close()


def _assert_near(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in found.items():
        assert value.dtype == wanted[name].dtype
        np.testing.assert_allclose(value, wanted[name], rtol=0, atol=1e-4)


def test_nothing_is_left_of_a_session(arm64_run: PlatformRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    session = open_in(PLACE, arm64_run.artifact("tvm", ARM), arm64_run.folder("tvm", ARM), 1)
    assert list(tmp_path.iterdir()) != []
    session.close()
    assert list(tmp_path.iterdir()) == []

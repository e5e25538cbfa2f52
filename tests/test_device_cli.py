"""The command with ``--device``, from end to end, on a fake adb whose device is this host."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers.arm64 import write_program
from helpers.command import Done, listing, python_of, run
from helpers.fake_device import make_device
from helpers.full_run import DIGITS
from helpers.places import assert_clean
from helpers.processes import wait_until

from convert.platforms import host_platform

pytestmark = pytest.mark.toolkit

NAME = "adb:emulator-5554"
LOST = f"{NAME}: the program was cut off: the connection is lost"


@pytest.fixture
def files(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The device's folder; its Python has the toolkits."""
    monkeypatch.setenv("TMPDIR", str(place / "temporary"))
    return make_device(place / "device", monkeypatch, f"{python_of('core').parent}{os.pathsep}{os.environ['PATH']}")


def convert(place: Path, model: Path, *words: str | Path) -> Done:
    settings = ("--device", NAME, "--out", place / "out", "--bench-seconds", "0.2")
    return run(model, *words, *settings, cwd=place / "cwd")


def artifacts(place: Path) -> list[Any]:
    return list(json.loads((place / "out" / "report.json").read_text(encoding="utf-8"))["artifacts"])


def test_digits_are_proven_and_timed_on_the_device(place: Path, files: Path) -> None:
    done = convert(place, DIGITS / "digits.pt2", "--samples", DIGITS / "samples.npz", "--target", "tvm,onnx,tflite")
    assert done.code == 0, done.stderr
    assert [one["target"] for one in artifacts(place)] == ["tvm", "onnx", "tflite"]
    for one in artifacts(place):
        assert (one["status"], one["platform"]) == ("passed", host_platform())
        assert one["checks"]
        assert (one["proven"]["how"], one["proven"]["place"]) == ("device", NAME)
        device = one["proven"]["device"]
        assert (device["name"], device["platform"]) == (NAME, host_platform())
        assert {"cpu", "governor", "temperature"} < set(device)
        assert one["latency"]["p50_ms"] > 0
        assert one["latency"]["peak_memory_mib"] > 1
        # There is nothing on the device to compare with.
        assert one["latency"]["ratio_to_onnxruntime"] is None
        assert (place / "out" / one["target"] / "float32" / "manifest.json").is_file()
    assert listing(files) == {}
    assert_clean(place)


@pytest.mark.parametrize(
    ("target", "word", "stage"),
    [("tvm", "tvm_runner 0", "check"), ("onnx", "serve.py 0", "check"), ("tvm", "tvm_runner 1", "latency")],
)
def test_a_device_that_is_lost_in_the_middle(
    small_onnx: Path, place: Path, files: Path, target: str, word: str, stage: str
) -> None:
    # The program has loaded by then, and the head of its first result comes through.
    (files.parent / "cut").write_text(f"{word} 25")
    done = convert(place, small_onnx, "--target", target)
    assert done.code == 1, done.stderr
    (one,) = artifacts(place)
    assert (one["status"], one["stage"], one["latency"]) == ("failed", stage, None)
    assert LOST in one["reason"]
    assert not (place / "out" / target / "float32").exists()
    wait_until(lambda: listing(files) == {}, 60, "the device has removed the folder by itself")
    assert_clean(place)


@pytest.mark.parametrize(
    ("python", "why"),
    [
        ('exec {real} -S -I "$@"', "its python3 lacks numpy; install numpy and onnxruntime for it there"),
        ('shift; exec {real} -c "$OLD" "$@"', "its python3 is Python 3.9, and opening the artifact there needs 3.11"),
        ("", "it has no python3, which opens the artifact there; install Python 3.11 or newer on it"),
    ],
    ids=["without numpy", "too old", "none"],
)
def test_a_device_without_a_fitting_python(
    small_onnx: Path, place: Path, monkeypatch: pytest.MonkeyPatch, python: str, why: str
) -> None:
    files = make_device(place / "device", monkeypatch, str(place / "programs"))
    (place / "programs").mkdir()
    for name in ("sh", "uname", "sed", "tr", "cat", "mktemp", "rm", "tar"):
        (place / "programs" / name).symlink_to(str(shutil.which(name)))
    if python:
        old = "import runpy, sys; sys.version_info = (3, 9, 2, 'final', 0); sys.argv = ['', *sys.argv[1:]]; "
        old += "runpy.run_path('convert/remote/serve.py', run_name='__main__')"
        text = python.format(real=python_of("core"))
        write_program(place / "programs", "python3", f'#!/bin/sh\nOLD="{old}"\n{text}\n')
    done = convert(place, small_onnx, "--target", "onnx")
    assert done.code == 1, done.stderr
    (one,) = artifacts(place)
    assert f"{NAME}: {why}" in one["reason"]
    assert not (place / "out" / "onnx").exists()
    assert listing(files) == {}

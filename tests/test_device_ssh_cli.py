"""The command with ``--device`` over real ssh: to this host, and to what passes for a board."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import sshd
from helpers.arm64 import write_program
from helpers.command import Variables, listing, python_of, run
from helpers.places import assert_clean
from helpers.processes import wait_until

from convert.platforms import host_platform

pytestmark = [pytest.mark.toolkit, sshd.needed]


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd.Sshd]:
    # What the files of the user's shell put on the PATH comes before what the server sets.
    text = f'#!/bin/sh\nPATH={shlex.quote(str(python_of("core").parent))}:$PATH exec sh -c "$SSH_ORIGINAL_COMMAND"\n'
    forced = write_program(tmp_path_factory.mktemp("host"), "forced", text)
    with sshd.serving(tmp_path_factory.mktemp("server"), {}, forced) as found:
        yield found


def artifacts(out: Path) -> list[Any]:
    return list(json.loads((out / "report.json").read_text(encoding="utf-8"))["artifacts"])


def assert_proven_on(device: str, platform: str, out: Path, below: str = "") -> None:
    """Both artifacts passed on ``device``, and were timed there."""
    found = artifacts(out)
    assert {one["target"] for one in found} == {"tvm", "onnx"}
    for one in found:
        assert (one["status"], one["platform"]) == ("passed", platform), one["reason"]
        assert (one["proven"]["how"], one["proven"]["place"]) == ("device", device)
        assert one["proven"]["device"]["platform"] == platform
        assert one["checks"]
        assert one["latency"]["p50_ms"] > 0
        assert (out / below / one["target"] / "float32" / "manifest.json").is_file()


def test_proven_and_timed_over_ssh(small_onnx: Path, place: Path, server: sshd.Sshd) -> None:
    words = ["--target", "tvm,onnx", "--device", server.name, "--bench-seconds", "0.2", "--out", str(place / "out")]
    variables: Variables = {"CONVERT_SSH": server.client, "TMPDIR": place / "temporary"}
    done = run(small_onnx, *words, cwd=place / "cwd", variables=variables)
    assert done.code == 0, done.stdout
    assert_proven_on(server.name, host_platform(), place / "out")
    wait_until(lambda: listing(server.scratch) == {}, 60, "nothing is left on the device")
    assert_clean(place)


def test_proven_and_timed_on_a_board(small_onnx: Path, place: Path, board: sshd.Sshd) -> None:
    words = ["--target", "tvm,onnx", "--platform", "linux/arm64", "--cpu", "rpi4", "--device", board.name]
    words += ["--bench-seconds", "0.2", "--out", str(place / "out")]
    variables: Variables = {"CONVERT_SSH": board.client, "TMPDIR": place / "temporary"}
    done = run(small_onnx, *words, cwd=place / "cwd", variables=variables)
    assert done.code == 0, done.stdout
    assert_proven_on(board.name, "linux/arm64", place / "out", "linux-arm64")
    wait_until(lambda: listing(board.scratch) == {}, 60, "nothing is left on the device")
    assert_clean(place)


@pytest.mark.parametrize(("port", "why"), [("", "Permission denied (publickey)."), (":1", "Connection refused")])
def test_a_device_that_cannot_be_reached(small_onnx: Path, place: Path, server: sshd.Sshd, port: str, why: str) -> None:
    device = server.name if not port else f"{server.name.rpartition(':')[0]}{port}"
    # That no worker is started is shown by an interpreter that does not exist.
    variables: Variables = {"CONVERT_SSH": server.stranger, "CONVERT_PYTHON_CORE": "/nowhere/python"}
    done = run(small_onnx, "--target", "tvm", "--device", device, cwd=place / "cwd", variables=variables)
    assert (done.code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert f"--device {device} cannot be used: " in line
    assert line.endswith(why)
    assert_clean(place)

"""Tuning on a device behind ssh: candidates are compiled here, and timed there by the program that runs artifacts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import graphs, sshd
from helpers.command import Variables, listing, run
from helpers.processes import wait_until

from convert.targets.tvm_tuning import database
from convert.toolchain_env import cache_root

onnx = pytest.importorskip("onnx")

pytestmark = [pytest.mark.toolkit, pytest.mark.slow, sshd.needed]


def test_a_board_is_tuned_for_and_keeps_nothing(board: sshd.Sshd, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    for name in ("toolchains", "runners"):
        (cache_root() / name).mkdir(parents=True, exist_ok=True)
        (cache / name).symlink_to(cache_root() / name)
    weights = np.random.default_rng(0).normal(size=(24, 16)).astype(np.float32)
    onnx.save(graphs.make((("MatMul", "x w", "y"),), {"x": [4, 24]}, ["y"], {"w": weights}), str(tmp_path / "net.onnx"))
    variables: Variables = {"CONVERT_CACHE": cache, "CONVERT_SSH": board.client}
    where = ("--device", board.name, "--cpu", "cortex-a72")
    tuned = run("tune", "net.onnx", *where, "--tune", "4", cwd=tmp_path, variables=variables)
    assert tuned.code == 0, tuned.stderr
    assert tuned.stdout.startswith("tuned 1 of 1 kernels in 4 trials and ")
    (file,) = database.files_in(cache / "tuning")
    found = database.read(file)
    assert (found.identity.arch, found.identity.mcpu) == ("aarch64", "cortex-a72")
    ((key, workload),) = found.workloads.items()
    assert workload.untuned is not None
    assert workload.untuned > 0
    assert 0 < len(workload.records) <= 4
    wait_until(lambda: listing(board.scratch) == {}, 60, "the device has removed the folders by itself")
    workload.untuned = 1.0  # times under emulation say nothing, and the schedule is to be used
    database.write(file, found)
    words = ("net.onnx", "--target", "tvm", *where, "--bench-seconds", "0", "-q", "--out", "out")
    built = run(*words, cwd=tmp_path, variables=variables)
    assert built.code == 0, built.stderr
    manifest = json.loads((tmp_path / "out/linux-arm64/tvm/float32/manifest.json").read_text(encoding="utf-8"))
    report = manifest["settings"]["tuning"]
    assert ([one["key"] for one in report["applied"]], report["dropped"]) == ([key], [])
    assert report["cpu"] == "aarch64 cortex-a72"

"""Tuning with TVM itself: kernels are found and kept, and a schedule that is wrong never gets into an artifact."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import command, graphs, tvm_tuning
from helpers.processes import wait_until

from convert.targets.tvm_tuning import database
from convert.targets.tvm_tuning.records import Identity, Record, Records, Workload
from convert.toolchain_env import cache_root

onnx = pytest.importorskip("onnx")

pytestmark = pytest.mark.toolkit


def net(rows: Any = 4) -> Any:
    """Two layers whose kernels are of different shapes."""
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.normal(size=(24, 16)).astype(np.float32),
        "v": rng.normal(size=(16, 8)).astype(np.float32),
    }
    nodes = (("MatMul", "x w", "m"), ("Tanh", "m", "h"), ("MatMul", "h v", "y"))
    return graphs.make(nodes, {"x": [rows, 24]}, ["y"], constants)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(net(), str(tmp_path / "net.onnx"))
    return tmp_path / "net.onnx"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache folder with the toolchains of this machine and nothing else."""
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "toolchains").symlink_to(cache_root() / "toolchains")
    return folder


def loops(block: str) -> Any:
    """A schedule that splits and vectorises the columns of a matrix product."""
    steps = [
        ["GetSBlock", [], [block, "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
        ["Split", ["l2", None, 4], [1, 0], ["l4", "l5"]],
        ["Reorder", ["l3", "l5"], [], []],
        ["Vectorize", ["l5"], [], []],
    ]
    return [steps, []]


def fabricated(model: Path, file: Path, *traces: Any, seconds: float = 1e-9) -> dict[str, Any]:
    """A database with ``traces`` for every kernel that is a matrix product; gives the kernels."""
    found = tvm_tuning.ask("kernels", model)
    identity = found["identity"] | {"mattr": tuple(found["identity"]["mattr"])}
    records = Records(Identity(**identity))
    for kernel in found["kernels"]:
        if "dense" in kernel["name"]:
            made = [Record(trace, (seconds * (place + 1),)) for place, trace in enumerate(traces)]
            records.workloads[kernel["key"]] = Workload(kernel["name"], "", 1e-3, 8, made)
    database.write(file, records)
    return dict(found)


def test_kernels_are_the_same_in_every_run_and_every_model(model: Path, tmp_path: Path) -> None:
    first, second = tvm_tuning.ask("kernels", model), tvm_tuning.ask("kernels", model)
    assert first == second
    assert first["open_sizes"] == 0
    assert len({kernel["key"] for kernel in first["kernels"]}) == len(first["kernels"]) == 2
    assert all(kernel["calls"] == 1 for kernel in first["kernels"])
    onnx.save(graphs.make((("MatMul", "x v", "y"),), {"x": [4, 16]}, ["y"], {"v": np.ones((16, 8), np.float32)}),
              str(tmp_path / "other.onnx"))  # fmt: skip
    (other,) = tvm_tuning.ask("kernels", tmp_path / "other.onnx")["kernels"]
    assert other["key"] in {kernel["key"] for kernel in first["kernels"]}
    onnx.save(net("N"), str(tmp_path / "open.onnx"))
    assert tvm_tuning.ask("kernels", tmp_path / "open.onnx")["open_sizes"] == 2


def test_a_schedule_is_used_after_it_was_compared(model: Path, tmp_path: Path) -> None:
    fabricated(model, tmp_path / "x.json", loops("convert_sum"))
    report = tvm_tuning.ask("apply", model, tmp_path / "x.json")
    assert (report["kernels"], len(report["applied"]), report["dropped"]) == (2, 2, [])
    assert all(0 <= one["error"] <= 1 and one["seconds"] == 1e-9 for one in report["applied"])
    assert report["difference"] < 1e-5


WRONG = """
import sys
sys.path.insert(0, {package!r})
import _bootstrap
_bootstrap._load_package()
from convert.targets.tvm_schedule import comparison, proof_child
real = comparison._built
def wrong(kernels, level):
    functions = real(kernels, level)
    name, function = next(iter(functions.items()))
    def call(*arrays):
        function(*arrays)
        {fault}
    return functions | ({{name: call}} if level == comparison.SHIPPED_CODE else {{}})
comparison._built = wrong
proof_child.main(sys.argv[1])
"""
LAST = "value = arrays[-1].numpy().copy(); value.flat[3] += 1e-3 * abs(value).max(); arrays[-1].copyfrom(value)"


def wrong_child(tmp_path: Path, fault: str) -> Path:
    """The program that runs kernels, with a fault in the first kernel that has a schedule."""
    file = tmp_path / "child.py"
    file.write_text(WRONG.format(package=str(command.ROOT / "convert"), fault=fault), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (LAST, "differs with one thread: "),
        ("arrays[-1].copyfrom(arrays[-1].numpy() * float('nan'))", "other values are infinite or no numbers"),
        ("import os; os.kill(os.getpid(), 11)", "the process that ran it ended, or took too long"),
        ("raise ValueError('no')", "ValueError: no"),
    ],
)
def test_a_wrong_kernel_is_dropped_and_told(model: Path, tmp_path: Path, fault: str, told: str) -> None:
    fabricated(model, tmp_path / "x.json", loops("convert_sum"))
    report = tvm_tuning.ask("apply", model, tmp_path / "x.json", wrong_child(tmp_path, fault))
    # A process that ends is begun anew with the next kernel, and then that is its first.
    assert (len(report["applied"]), len(report["dropped"])) == ((0, 2) if "kill" in fault else (1, 1))
    assert all(told in dropped["reason"] for dropped in report["dropped"])
    assert report["difference"] < 1e-5


def test_the_next_schedule_is_tried_where_one_does_not_fit(model: Path, tmp_path: Path) -> None:
    fabricated(model, tmp_path / "x.json", loops("no_such_block"), loops("convert_sum"))
    report = tvm_tuning.ask("apply", model, tmp_path / "x.json")
    assert (len(report["applied"]), len(report["dropped"])) == (2, 2)
    assert all(one["seconds"] == 2e-9 for one in report["applied"])
    fabricated(model, tmp_path / "x.json", loops("convert_sum"), seconds=1.0)
    report = tvm_tuning.ask("apply", model, tmp_path / "x.json")
    assert (report["applied"], report["slower"]) == ([], 2)


def test_a_database_of_another_cpu_serves_nothing(model: Path, tmp_path: Path) -> None:
    fabricated(model, tmp_path / "x.json", loops("convert_sum"))
    data = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    data["target"]["mcpu"] = "cortex-a72"
    (tmp_path / "x.json").write_text(json.dumps(data), encoding="utf-8")
    report = tvm_tuning.ask("apply", model, tmp_path / "x.json")
    assert (report["applied"], report["skipped"], report["difference"]) == ([], 2, 0)


def test_the_budget_goes_where_the_time_is_and_is_kept(model: Path, tmp_path: Path) -> None:
    first = tvm_tuning.ask("tune", model, tmp_path, "20", "own")
    assert first["timed"][0][1] == 2  # as they are
    # At the end the rules' kernels are timed once more.
    assert sum(count for _, count in first["timed"][1:-1]) == first["found"]["trials"] <= 20
    assert first["said"][0] == "timing 1 to 2 of 2 kernels as the rules make them"
    assert first["said"][1].startswith("kernel ")
    assert first["found"]["kernels"] == 2
    (file,) = database.files_in(tmp_path)
    found = database.read(file)
    assert found.skipped == 0  # whatever the search writes is what may be read
    assert sum(workload.trials for workload in found.workloads.values()) == first["found"]["trials"]
    # The second could not be timed as it is; that is no reason to leave it as it is.
    assert sorted(workload.untuned or 0 for workload in found.workloads.values()) == [0, 1e-3]
    assert {name for name, _ in first["timed"][1:]} == {"fused_dense_tir_tanh", "dense1"}
    again = tvm_tuning.ask("tune", model, tmp_path, str(first["found"]["trials"]), "own")
    assert (again["timed"], again["said"], again["found"]["before"]) == ([], [], first["found"]["trials"])


def test_a_space_of_ones_own_is_searched(model: Path, tmp_path: Path) -> None:
    own = tvm_tuning.ask("tune", model, tmp_path / "own", "40", "own")
    (matmul,) = [kernel for kernel in tvm_tuning.ask("kernels", model)["kernels"] if "tanh" not in kernel["name"]]
    found = database.read(database.files_in(tmp_path / "own")[0]).workloads[matmul["key"]]
    # Four rows can be split in three ways, and then there is nothing more to try.
    assert 0 < found.trials <= 3
    steps = {step[0] for record in found.records for step in record.trace[0]}
    assert {"SamplePerfectTile", "Split"} <= steps
    assert "Annotate" not in steps
    assert own["found"]["trials"] <= 40


def trials(cache: Path) -> int:
    (file,) = database.files_in(cache / "tuning")
    return sum(workload.trials for workload in database.read(file).workloads.values())


@pytest.mark.slow
def test_tuning_ends_with_schedules_that_the_next_build_uses(model: Path, tmp_path: Path, cache: Path) -> None:
    variables = {"CONVERT_CACHE": cache}
    first = command.run("tune", model, "--tune", "8", cwd=tmp_path, variables=variables)
    assert first.code == 0, first.stderr
    assert first.stdout.startswith("tuned 1 of 2 kernels in 8 trials and ")
    assert re.search(r"kernel [12] of 2 \(.*\): 0 of 8 trials", first.stderr)
    assert trials(cache) == 8
    again = command.run("tune", model, "--tune", "8", "-q", cwd=tmp_path, variables=variables)
    assert (again.code, again.stderr) == (0, "")
    assert again.stdout.startswith("tuned 1 of 2 kernels in 0 trials after 8 of earlier runs and 0 s, together ")
    words = ("--target", "tvm", "--tune", "12", "--bench-seconds", "0", "-q", "--out", "out")
    more = command.run(model, *words, cwd=tmp_path, variables=variables)
    assert more.code == 0, more.stderr
    assert trials(cache) == 12
    manifest = json.loads((tmp_path / "out/tvm/float32/manifest.json").read_text(encoding="utf-8"))
    report = manifest["settings"]["tuning"]
    assert report["dropped"] == []
    assert 1 <= len(report["applied"]) + report["slower"] <= 2
    whole = json.loads((tmp_path / "out/report.json").read_text(encoding="utf-8"))
    assert any("kernels in 4 trials after 8 of earlier runs" in note for note in whole["artifacts"][0]["notes"])
    assert whole["options"]["tuning"]["trials"] == 12
    without = command.run(model, *words[:2], "--tuning-db", "none", *words[4:], cwd=tmp_path, variables=variables)
    assert without.code == 0, without.stderr
    manifest = json.loads((tmp_path / "out/tvm/float32/manifest.json").read_text(encoding="utf-8"))
    assert "tuning" not in manifest["settings"]


@pytest.mark.slow
def test_an_interrupted_run_keeps_what_it_measured(model: Path, tmp_path: Path, cache: Path) -> None:
    variables = {"CONVERT_CACHE": cache}
    process = command.start("tune", model, "--tune", "400", "-q", cwd=tmp_path, variables=variables)
    folder = cache / "tuning"
    wait_until(lambda: bool(database.files_in(folder)) and trials(cache) > 0, 200, "the first batch is kept")
    process.send_signal(signal.SIGINT)
    done = command.finish(process, 60)
    assert done.code == 130
    assert done.last_line == (
        "convert: interrupted; what was measured until then is kept, and the same command goes on from there"
    )
    before = trials(cache)
    assert before < 400
    more = command.run("tune", model, "--tune", str(before + 4), "-q", cwd=tmp_path, variables=variables)
    assert (more.code, trials(cache)) == (0, before + 4), more.stderr
    assert f"in 4 trials after {before} of earlier runs" in more.stdout


def test_the_toolchain_is_asked_for_before_anything_runs(model: Path, tmp_path: Path) -> None:
    python = command.python_of("tvm")
    variables: command.Variables = {"CONVERT_CACHE": tmp_path / "empty", "CONVERT_PYTHON_TVM": python}
    done = command.run("tune", model, cwd=tmp_path, variables=variables)
    told = "the toolchain tvm-tuning is not installed; get it with `convert toolchain install tvm-tuning`"
    assert (done.code, done.stdout, done.last_line) == (2, "", f"convert: {told}")
    done = command.run(model, "--target", "tvm", "--tune", "5", "-q", "--out", "o", cwd=tmp_path, variables=variables)
    assert done.code == 1
    (artifact,) = json.loads((tmp_path / "o/report.json").read_text(encoding="utf-8"))["artifacts"]
    assert (artifact["status"], artifact["stage"]) == ("failed", "toolchain")
    assert artifact["reason"] == f"--tune cannot be done: {told}"


def test_what_cannot_be_tuned_is_said_before_anything_runs(model: Path, tmp_path: Path) -> None:
    done = command.run("tune", model, "--platform", "linux/arm64", "--cpu", "rpi4", cwd=tmp_path)
    assert (done.code, done.stdout) == (2, "")
    assert done.last_line.startswith("convert: tuning needs a device with the CPU it is for (linux/arm64 rpi4), and")
    done = command.run(model, "--target", "onnx", "--tune", "5x", cwd=tmp_path)
    assert (done.code, done.last_line[:56]) == (2, "convert: --tune '5x' is about kernels of tvm, and --targ")


@pytest.mark.slow
def test_kernels_without_fixed_sizes_are_told(tmp_path: Path, cache: Path) -> None:
    onnx.save(net("N"), str(tmp_path / "open.onnx"))
    words = ("tune", "open.onnx", "--dim", "N=1..2..4", "--tune", "8", "-q")
    done = command.run(*words, cwd=tmp_path, variables={"CONVERT_CACHE": cache})
    assert done.code == 2
    assert done.last_line.startswith("convert: nothing was tuned: none of the 2 kernels has fixed sizes; give sizes")

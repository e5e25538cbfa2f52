"""Graphs that TVM cannot compile with dynamic sizes, through the whole pipeline into modules of fixed sizes."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import command, graphs

from convert.errors import StageError
from convert.records import Dim
from convert.targets import load_target
from convert.targets.tvm_fixed import at_sizes

onnx = pytest.importorskip("onnx")

RUN = command.ROOT / "tests" / "helpers" / "tvm_session.py"


def stuck(last: graphs.Node) -> Any:
    """A layer between two reshapes to sizes that are read one at a time, then ``last``, from ``r`` to ``y``.

    TVM's front end does not take a reshape of a single size.
    """
    constants = {
        "zero": np.int64(0),
        "one": np.int64(1),
        "row": np.asarray([1], np.int64),
        "rest": np.asarray([-1], np.int64),
        "rows": np.asarray([-1, 8], np.int64),
        "w": np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32),
    }
    nodes = (
        ("Shape", "x", "sizes"),
        ("Gather", "sizes zero", "n"),
        ("Gather", "sizes one", "t"),
        ("Reshape", "n row", "n1"),
        ("Reshape", "t row", "t1"),
        ("Concat", "n1 t1 rest", "back", {"axis": 0}),
        ("Reshape", "x rows", "flat"),
        ("MatMul", "flat w", "m"),
        ("Tanh", "m", "h"),
        ("Reshape", "h back", "r"),
        last,
    )
    return graphs.make(nodes, {"x": ["N", "T", 8]}, ["y"], constants)


def convert(folder: Path, last: graphs.Node, *dims: str) -> tuple[command.Done, dict[str, Any]]:
    """Convert for tvm; gives how the command ended and what the report says of the artifact."""
    onnx.save(stuck(last), str(folder / "stuck.onnx"))
    words = ["--target", "tvm", "--bench-seconds", "0", "--quiet", "--out", "out"]
    words += [word for dim in dims for word in ("--dim", dim)]
    done = command.run("stuck.onnx", *words, cwd=folder)
    report = json.loads((folder / "out" / "report.json").read_text(encoding="utf-8"))
    (artifact,) = report["artifacts"]
    return done, artifact


def results(folder: Path, feeds: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What the session over the files gives for each case: outputs, or a refusal."""
    np.savez(folder / "feeds.npz", **{f"{case}/{name}": v for case, one in feeds.items() for name, v in one.items()})
    done = subprocess.run(
        [command.python_of("tvm"), str(RUN), str(folder / "out" / "tvm" / "float32"), str(folder / "feeds.npz")],
        capture_output=True, text=True, check=False, env=command.importing(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.toolkit
def test_a_batch_is_padded_and_time_is_not(tmp_path: Path) -> None:
    last = ("Softmax", "r", "y", {"axis": 1})
    done, artifact = convert(tmp_path, last, "N=1..4..16", "T=2..4..5")
    assert (done.code, artifact["status"], artifact["route"]) == (0, "passed", "onnx-buckets"), done.stdout
    assert [route["status"] for route in artifact["routes"]] == ["failed", "skipped", "passed"]
    manifest = json.loads((tmp_path / "out/tvm/float32/manifest.json").read_text(encoding="utf-8"))
    assert manifest["settings"]["padded"] == ["N"]
    assert manifest["settings"]["buckets"] == [
        {"file": f"model-N{n}-T{t}.so", "dims": {"N": n, "T": t}} for n, t in
        sorted(((n, t) for n in (4, 16) for t in (2, 3, 4, 5)), key=lambda sizes: (sizes[0] * sizes[1], *sizes))
    ]  # fmt: skip
    assert sorted(manifest["files"]) == sorted(one["file"] for one in manifest["settings"]["buckets"])
    assert manifest["notes"][-1] == (
        "8 modules of fixed sizes (N=4|16, T=2|3|4|5); other sizes of N are padded to the next of these"
    )
    rng = np.random.default_rng(1)
    feeds = {
        f"{n}x{t}": {"x": rng.normal(size=(n, t, 8)).astype(np.float32)} for n, t in ((1, 3), (7, 2), (16, 5), (13, 4))
    }
    outside = {"17x3": {"x": np.zeros((17, 3, 8), np.float32)}, "4x6": {"x": np.zeros((4, 6, 8), np.float32)}}
    found = results(tmp_path, feeds | outside)
    for case, one in feeds.items():
        (wanted,) = graphs.run(stuck(last), one)
        given = np.asarray(found[case]["y"])
        assert given.shape == wanted.shape
        assert np.abs(given - wanted).max() < 1e-6
    assert found["17x3"].startswith("N is 17, and this artifact was made for N=1..16;")
    assert found["4x6"].startswith("T is 6, and this artifact was made for T=2..5;")


@pytest.mark.slow
@pytest.mark.toolkit
def test_a_time_of_many_sizes_is_refused(tmp_path: Path) -> None:
    done, artifact = convert(tmp_path, ("ReduceMean", "r", "y", {"axes": [1], "keepdims": 0}), "N=1..4", "T=2..6..20")
    assert (done.code, artifact["status"], artifact["files"]) == (1, "failed", [])
    buckets = artifact["routes"][-1]
    assert (buckets["route"], buckets["stage"]) == ("onnx-buckets", "build")
    assert buckets["reason"].startswith(
        "T=2..20 would need 19 modules of fixed sizes, and at most 8 are made (T cannot be padded: output y changes "
    )
    assert artifact["advice"].startswith("give --dim a range of few sizes")


def test_fixed_sizes_are_refused(tmp_path: Path) -> None:
    asked = graphs.request(tmp_path, stuck(("Identity", "r", "y")), "tvm", "float32", "onnx-buckets")
    asked = replace(asked, golden=replace(asked.golden, dims=(Dim("N", 4, 4, 4),)))
    with pytest.raises(StageError, match="every size of this model is fixed; use the route onnx"):
        load_target("tvm").build(asked)


def kinds(model: Any) -> list[str]:
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("sizes", [(1, 2), (3, 5)])
def test_what_works_out_sizes_becomes_a_constant(sizes: tuple[int, int]) -> None:
    model = stuck(("Softmax", "r", "y", {"axis": 1}))
    before = model.SerializeToString()
    fixed = at_sizes(model, {"x": (*sizes, 8)})
    assert kinds(fixed) == ["Reshape", "MatMul", "Tanh", "Reshape", "Softmax"]
    assert model.SerializeToString() == before
    feeds = {"x": np.random.default_rng(2).normal(size=(*sizes, 8)).astype(np.float32)}
    assert np.array_equal(graphs.run(fixed, feeds)[0], graphs.run(model, feeds)[0])


@pytest.mark.parametrize(
    ("nodes", "left"),
    [
        ((("Shape", "x", "s"), ("Cast", "s", "y", {"to": 1})), ["Cast"]),  # an output keeps its node
        ((("RandomNormal", "", "r", {"shape": [2, 8]}), ("Add", "x r", "y")), ["RandomNormal", "Add"]),
        ((("Shape", "x", "s"), ("ConstantOfShape", "s", "z"), ("Add", "x z", "y")), ["Add"]),
        ((("Tile", "large times", "z"), ("Add", "x z", "y")), ["Tile", "Add"]),  # too large to be a size
    ],
)
def test_what_is_more_than_a_size_stays(nodes: tuple[graphs.Node, ...], left: list[str]) -> None:
    constants = {"large": np.zeros((1, 1, 8), np.float32), "times": np.asarray([1000, 1, 1], np.int64)}
    assert kinds(at_sizes(graphs.make(nodes, {"x": ["N", 8]}, ["y"], constants), {"x": (2, 8)})) == left

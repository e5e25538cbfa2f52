"""What a build of tvm in buckets compiles, tries and leaves, with functions in place of compiled modules."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from convert.errors import StageError
from convert.golden_io import CaseData, save_case
from convert.records import Case, Dim, Golden, InputSpec, Kind, OutputSpec, Status
from convert.steps import build as step
from convert.steps.job import Attempts
from convert.targets import load_target
from convert.targets.base import BuildRequest
from convert.targets.tvm_bucket_build import Buckets, build_buckets

Net = Callable[[Any, Mapping[str, int]], Any]
DIMS = (Dim("N", 1, 4, 16), Dim("T", 2, 4, 6), Dim("S", 3, 3, 3))
CASES = tuple(
    Case(name, "draw", {"N": n, "T": t, "S": 3}, 0, f"{name}.npz")
    for name, n, t in (
        ("opt-draw0", 4, 4), ("min-draw0", 1, 2), ("max-draw0", 16, 6), ("odd-draw0", 3, 5), ("odd-N-draw0", 3, 4),
        ("odd-T-draw0", 4, 5),
    )
)  # fmt: skip


def build(place: Path, net: Net, dims: tuple[Dim, ...] = DIMS) -> tuple[Buckets, list[str]]:
    """Build with ``net`` of an array and the sizes of a module; gives what was built and what was compiled."""
    folder, out, scratch = place / "golden", place / "out", place / "scratch"
    for one in (folder, out, scratch):
        one.mkdir()
    rng = np.random.default_rng(0)
    for case in CASES:
        x = rng.normal(size=(case.dims["N"], case.dims["T"], 3)).astype(np.float32)
        save_case(folder / case.file, CaseData({"x": x}, {}, {}))
    golden = Golden(
        Kind.ONNX, "m", 0, 0, (InputSpec("x", "float32", ("N", "T", "S")),), dims,
        (OutputSpec("y", "float32", ("N", "T", "S")),), CASES, "float64",
    )  # fmt: skip
    limits = {case.name: {"y": {"max_error": 1e-6}} for case in CASES}
    asked = BuildRequest("tvm", "float32", "onnx-buckets", golden, folder, out, scratch, settings={"limits": limits})
    compiled: list[str] = []

    def compile_at(sizes: Mapping[str, int], file: Path) -> None:
        compiled.append(file.name)
        file.write_text(json.dumps(dict(sizes)))

    def load(file: Path) -> Callable[[list[Any]], list[Any]]:
        sizes = json.loads(file.read_text())

        def call(feeds: list[Any]) -> list[Any]:
            assert feeds[0].shape == tuple(sizes[name] for name in ("N", "T", "S"))
            return [np.asarray(net(feeds[0], sizes), np.float32)]

        return call

    made = build_buckets(asked, compile_at, load)
    assert sorted(file.name for file in out.iterdir()) == sorted(made.files)
    return made, compiled


def test_both_padded(tmp_path: Path) -> None:
    made, compiled = build(tmp_path, lambda x, _: np.tanh(x))
    assert made.settings["padded"] == ["N", "T"]
    assert [one["dims"] for one in made.settings["buckets"]] == [
        {"N": n, "T": t} for n, t in ((4, 2), (4, 4), (4, 6), (16, 2), (16, 4), (16, 6))
    ]
    assert made.settings["range"] == {"N": [1, 16], "T": [2, 6], "S": [3, 3]}
    assert made.settings["inputs"] == made.settings["outputs"] == [["N", "T", "S"]]
    assert len(compiled) == len(set(compiled))  # none twice, though the proof wants some of them too
    assert {"model-N3-T4.so", "model-N4-T5.so", "model-N3-T5.so"} <= set(compiled)  # for the proof only
    assert made.note == (
        "6 modules of fixed sizes (N=4|16, T=2|4|6); other sizes of N, T are padded to the next of these"
    )


def test_one_padded(tmp_path: Path) -> None:
    made, _ = build(tmp_path, lambda x, _: x - x.mean(axis=1, keepdims=True))
    assert made.settings["padded"] == ["N"]
    assert sorted({one["dims"]["T"] for one in made.settings["buckets"]}) == [2, 3, 4, 5, 6]


def test_what_fails_with_two_paddings_at_once_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StageError) as caught:
        build(tmp_path, lambda x, sizes: x + ((sizes["N"], sizes["T"]) == (3, 5)))
    assert caught.value.reason == (
        "N and T can be padded alone and not at once: output y changes with the size of the padding (case odd-draw0, "
        "N=3, T=5 in N=4, T=6); fix one of them with --input"
    )


def test_too_many_sizes_end_the_build_before_the_rest_is_tried(tmp_path: Path) -> None:
    dims = (Dim("T", 2, 4, 60), Dim("N", 1, 4, 16), Dim("S", 3, 3, 3))
    with pytest.raises(StageError, match=r"^T=2..60 would need 59 modules of fixed sizes, and at most 8 are made \(T "):
        build(tmp_path, lambda x, _: x - x.mean(axis=1, keepdims=True), dims)
    assert len(list((tmp_path / "scratch" / "modules").iterdir())) == 2
    assert list((tmp_path / "out").iterdir()) == []


def test_nothing_padded(tmp_path: Path) -> None:
    few = (Dim("N", 3, 4, 4), Dim("T", 4, 4, 5), Dim("S", 3, 3, 3))
    made, compiled = build(tmp_path, lambda x, _: x, few)
    assert (made.settings["padded"], len(compiled)) == ([], 4)
    assert made.note == "4 modules of fixed sizes (N=3|4, T=4|5)"


def test_the_route_is_not_tried_where_every_size_is_fixed() -> None:
    (route,) = (route for route in load_target("tvm").routes("float32") if route.dynamic)
    assert route == load_target("tvm").routes("float32")[-1]  # last of all
    golden = Golden(Kind.ONNX, "m", 0, 0, (), (DIMS[2],), (), (), "float64")
    graph: Any = object()
    job: Any = SimpleNamespace(golden=golden, graphs=(graph,))
    attempts = Attempts()
    assert step._attempt(job, route, graph, None, attempts) is None
    (result,) = attempts.results
    assert (result.route, result.status) == ("onnx-buckets", Status.SKIPPED)
    assert result.reason == "this route is for dynamic sizes, and every size of the source is fixed"

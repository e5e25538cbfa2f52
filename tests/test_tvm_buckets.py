"""Modules of fixed sizes for TVM: which there are, and one session over all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from convert.errors import StageError
from convert.records import Artifact, Dim, IoEntry
from convert.targets.tvm import TvmSession
from convert.targets.tvm_buckets import MOST_MODULES, file_of, ladder, make_plan

N, T = Dim("N", 1, 4, 16), Dim("T", 2, 6, 9)


def golden_sizes(dim: Dim, odd: int | None) -> set[int]:
    return {dim.min, dim.opt, dim.max} | (set() if odd is None else {odd})


@pytest.mark.parametrize(
    ("dim", "odd", "steps"),
    [
        (N, 3, (1, 4, 16)),
        (Dim("N", 1, 8, 8), 7, (1, 2, 8)),  # 2 halves the step from 1 to 8
        (Dim("N", 1, 4, 64), 3, (1, 4, 16, 64)),
        (Dim("N", 1, 4, 64), 16, (1, 4, 64)),  # or the case of 16 would prove nothing
        (Dim("N", 1, 1, 1000), 501, (1, 5, 12, 31, 73, 176, 419, 1000)),
        (N, None, (1, 16)),  # the source takes no other size: the usual one is padded
        (Dim("N", 4, 4, 16), None, (16,)),
        (Dim("N", 2, 3, 4), 3, ()),  # nothing in between to pad
        (Dim("N", 1, 2, 2), 1, ()),
    ],
)
def test_which_sizes_would_get_a_module(dim: Dim, odd: int | None, steps: tuple[int, ...]) -> None:
    golden = golden_sizes(dim, odd)
    found = ladder(dim, golden)
    assert found == steps
    assert not found or (golden - set(found) and found[-1] == dim.max and len(found) <= MOST_MODULES)


def test_without_a_case_in_between_nothing_is_padded() -> None:
    assert ladder(N, {16}) == ()


def test_a_plan_of_padded_and_exact_dimensions() -> None:
    plan = make_plan([N, Dim("T", 2, 3, 3)], {"N": (1, 4, 16)}, {"T": "why"})
    assert plan.padded == ("N",)
    assert plan.sizes == {"N": (1, 4, 16), "T": (2, 3)}
    assert plan.modules[0] == {"N": 1, "T": 2}
    assert [file_of(sizes) for sizes in plan.modules] == [
        "model-N1-T2.so", "model-N1-T3.so", "model-N4-T2.so", "model-N4-T3.so", "model-N16-T2.so", "model-N16-T3.so",
    ]  # fmt: skip


def test_too_many_modules_become_fewer_steps() -> None:
    three = {"N": (1, 4, 16), "T": (2, 6, 9), "S": (2, 6, 9)}
    plan = make_plan([N, T, Dim("S", 2, 6, 9)], three, {})
    assert plan.sizes == {"N": (4, 16), "T": (6, 9), "S": (6, 9)}  # the usual sizes stay
    exact = make_plan([N, T], {"N": (1, 4, 16)}, {"T": "why"})
    assert exact.sizes == {"N": (16,), "T": tuple(range(2, 10))}
    wide = make_plan([Dim("N", 1, 1, 1000), Dim("T", 2, 3, 3)], {"N": (1, 5, 12, 31, 73, 176, 419, 1000)}, {"T": "why"})
    assert wide.sizes["N"] == (1, 31, 176, 1000)  # what is left is spread


def test_too_many_exact_sizes_are_refused() -> None:
    with pytest.raises(StageError) as caught:
        make_plan([N, Dim("T", 2, 6, 20)], {"N": (1, 4, 16)}, {"N": "", "T": "output y is wrong"})
    assert caught.value.reason == (
        "T=2..20 would need 19 modules of fixed sizes, and at most 8 are made (T cannot be padded: output y is wrong); "
        "give --dim fewer sizes, or fix them with --input"
    )


# One session over modules that are stood in for by functions.

ARTIFACT = Artifact(
    "tvm",
    "float32",
    "onnx-buckets",
    ("model-N1-T2.so", "model-N4-T2.so", "model-N1-T3.so", "model-N4-T3.so"),
    (
        IoEntry("x", "input", "x", "float32", (-1, -1), source_dtype="float32"),
        IoEntry("scale", "input", "scale", "float32", (1,), source_dtype="float32"),
        IoEntry("y", "output", "y", "float32", (-1, -1), source_dtype="float32"),
        IoEntry("total", "output", "total", "float32", (-1,), source_dtype="float32"),
    ),
    settings={
        "buckets": [{"file": f"model-N{n}-T{t}.so", "dims": {"N": n, "T": t}} for t in (2, 3) for n in (1, 4)],
        "padded": ["N"],
        "range": {"N": [1, 4], "T": [2, 3]},
        "inputs": [["N", "T"], [1]],
        "outputs": [["N", "T"], ["N"]],
    },
)


class Fakes:
    """Loads modules that note what they were given."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.given: list[np.ndarray[Any, Any]] = []

    def __call__(self, file: str) -> Callable[[list[Any]], list[Any]]:
        self.loaded.append(file)
        return self.run

    def run(self, feeds: list[Any]) -> list[Any]:
        self.given.append(feeds[0])
        return [feeds[0] * feeds[1], feeds[0].sum(axis=1)]


def run(session: TvmSession, batch: int, steps: int) -> dict[str, Any]:
    x = np.arange(batch * steps, dtype=np.float32).reshape(batch, steps)
    result = session.run({"x": x, "scale": np.asarray([3], np.float32)})
    assert np.array_equal(result["y"], 3 * x)
    assert np.array_equal(result["total"], x.sum(axis=1))
    return result


def test_the_session_takes_the_smallest_module_that_fits() -> None:
    fakes = Fakes()
    session = TvmSession(ARTIFACT, fakes)
    assert fakes.loaded == []
    for batch, steps in ((1, 2), (3, 2), (4, 2), (2, 3), (3, 2), (1, 2)):
        run(session, batch, steps)
    assert fakes.loaded == ["model-N1-T2.so", "model-N4-T2.so", "model-N4-T3.so"]  # each once, and none in vain
    assert [given.shape for given in fakes.given] == [(1, 2), (4, 2), (4, 2), (4, 3), (4, 2), (1, 2)]
    assert fakes.given[1].tolist() == [[0, 1], [2, 3], [4, 5], [4, 5]]  # the last row again


@pytest.mark.parametrize(
    ("batch", "steps", "told"),
    [
        (5, 2, "N is 5, and this artifact was made for N=1..4; feed such a size, or convert again with another --dim"),
        (0, 2, "N is 0, and this artifact was made for N=1..4"),
        (1, 1, "T is 1, and this artifact was made for T=2..3"),
        (4, 4, "T is 4, and this artifact was made for T=2..3"),
    ],
)
def test_sizes_outside_are_refused(batch: int, steps: int, told: str) -> None:
    with pytest.raises(StageError) as caught:
        run(TvmSession(ARTIFACT, Fakes()), batch, steps)
    assert caught.value.reason.startswith(told)


def test_arrays_of_other_axes_or_sizes_that_differ_are_refused() -> None:
    two = {**ARTIFACT.settings, "inputs": [["N", "T"], ["N"]]}
    session = TvmSession(Artifact("tvm", "float32", "", ("a",), ARTIFACT.io, settings=two), Fakes())
    with pytest.raises(StageError, match="N is 2 in one input and 1 in another"):
        session.run({"x": np.zeros((2, 2), np.float32), "scale": np.zeros(1, np.float32)})
    with pytest.raises(StageError, match=r"an input has 1 axes, and \[N, T\] is wanted"):
        session.run({"x": np.zeros(2, np.float32), "scale": np.zeros(1, np.float32)})


def test_an_output_too_few_is_refused() -> None:
    session = TvmSession(ARTIFACT, lambda _: lambda feeds: feeds[:1])
    with pytest.raises(StageError, match="the library gave 1 outputs, the source has 2"):
        session.run({"x": np.zeros((3, 2), np.float32), "scale": np.zeros(1, np.float32)})


def test_a_single_module_is_loaded_at_once_and_given_all() -> None:
    fakes = Fakes()
    session = TvmSession(Artifact("tvm", "float32", "onnx", ("model.so",), ARTIFACT.io), fakes)
    assert fakes.loaded == ["model.so"]
    run(session, 7, 5)
    assert fakes.given[0].shape == (7, 5)

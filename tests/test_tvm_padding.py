"""What may be padded for TVM: found by running, so that a batch passes and whatever mixes rows is seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convert.golden_io import CaseData, save_case
from convert.records import Case, Dim, Golden, InputSpec, Kind, OutputSpec
from convert.targets.tvm_padding import Trial, difference, joint_trial, trials

N, T = Dim("N", 1, 4, 16), Dim("T", 2, 6, 9)
CASES = tuple(
    Case(name, "edge" if name.startswith("edge") else "draw", {"N": n, "T": t}, 0, f"{name}.npz")
    for name, n, t in (
        ("opt-draw0", 4, 6), ("min-draw0", 1, 2), ("max-draw0", 16, 9), ("odd-draw0", 3, 5), ("odd-N-draw0", 3, 6),
        ("odd-T-draw0", 4, 5), ("edge-zeros", 4, 6),
    )
)  # fmt: skip


def test_a_dimension_is_tried_alone_where_it_has_no_module_and_at_its_smallest() -> None:
    assert [(one.case.name, one.sizes) for one in trials(N, (1, 4, 16), CASES)] == [
        ("odd-N-draw0", {"N": 4, "T": 6}),
        ("min-draw0", {"N": 16, "T": 2}),
    ]
    assert [(one.case.name, one.sizes) for one in trials(T, (9,), CASES)] == [
        ("opt-draw0", {"N": 4, "T": 9}),
        ("min-draw0", {"N": 1, "T": 9}),
    ]


def test_two_dimensions_are_tried_at_once() -> None:
    sizes = {"N": (1, 4, 16), "T": (2, 6, 9)}
    assert joint_trial(("N", "T"), sizes, CASES) == Trial(CASES[3], {"N": 4, "T": 6})
    assert joint_trial(("N",), sizes, CASES) is None


def softmax(x: Any, keep: Any) -> Any:
    del keep
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def masked_mean(x: Any, keep: Any) -> Any:
    return (x * keep[..., None]).sum(axis=1) / keep.sum(axis=1)[:, None].clip(1)


#: Name -> what the model computes of x [N, T, 2] and keep [N, T], the shape of its output, and what padding T does.
NETS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int | str, ...], str]] = {
    "pointwise": (lambda x, keep: np.tanh(x) * keep[..., None], ("N", "T", 2), ""),
    "causal": (lambda x, keep: np.cumsum(x * keep[..., None], axis=1), ("N", "T", 2), ""),
    "softmax": (softmax, ("N", "T", 2), "changes with"),
    "mean": (lambda x, keep: x.mean(axis=1) + 0 * keep[:, :1], ("N", 2), "changes with"),
    "masked-mean": (masked_mean, ("N", 2), "changes with"),
    "last": (lambda x, keep: x[:, -1] + 0 * keep[:, -1:], ("N", 2), "changes with what is in the padding"),
    "largest": (lambda x, keep: x.max(axis=1) + 0 * keep[:, :1], ("N", 2), "changes with what is in the padding"),
    "smallest": (lambda x, keep: x.min(axis=1) + 0 * keep[:, :1], ("N", 2), "changes with what is in the padding"),
    "backwards": (lambda x, keep: (x * keep[..., None])[:, ::-1], ("N", "T", 2), "changes with"),
    "size": (lambda x, keep: x / x.shape[1] + 0 * keep[..., None], ("N", "T", 2), "changes with the size"),
    "middle": (lambda x, keep: x[:, x.shape[1] // 3] + 0 * keep[:, :1], ("N", 2), "changes with the size"),
    "twice": (lambda x, keep: np.concatenate([x, x * keep[..., None]], axis=1), ("N", -1, 2), "has shape"),
}
INPUTS = (InputSpec("x", "float32", ("N", "T", 2)), InputSpec("keep", "bool", ("N", "T")))


def why(tmp_path: Path, net: Callable[[Any, Any], Any], shape: tuple[int | str, ...], dim: Dim, name: str) -> str:
    """What the proof says of padding ``dim`` to its largest size in one case."""
    case = next(one for one in CASES if one.name == name)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(case.dims["N"], case.dims["T"], 2)).astype(np.float32)
    keep = np.ones(x.shape[:2], bool)
    keep[:, 1::2] = False
    save_case(tmp_path / case.file, CaseData({"x": x, "keep": keep}, {}, {}))
    golden = Golden(Kind.ONNX, "m", 0, 0, INPUTS, (N, T), (OutputSpec("y", "float32", shape),), CASES, "float64")
    limits = {case.name: {"y": {"max_error": 1e-6}}}

    def engine(sizes: Mapping[str, int]) -> Callable[[list[Any]], list[Any]]:
        def call(feeds: list[Any]) -> list[Any]:
            assert feeds[0].shape[:2] == feeds[1].shape == (sizes["N"], sizes["T"])
            assert feeds[1].dtype == bool
            return [np.asarray(net(*feeds)).astype(np.float32)]

        return call

    return difference(Trial(case, case.dims | {dim.name: dim.max}), golden, tmp_path, limits, engine)


@pytest.mark.parametrize("name", NETS)
def test_padding_of_time_is_seen_where_it_matters(tmp_path: Path, name: str) -> None:
    net, shape, told = NETS[name]
    found = why(tmp_path, net, shape, T, "opt-draw0")
    assert found.startswith(f"output y {told}") if told else found == ""


@pytest.mark.parametrize("name", NETS)
def test_a_batch_may_be_padded(tmp_path: Path, name: str) -> None:
    net, shape, _ = NETS[name]
    assert why(tmp_path, net, shape, N, "odd-N-draw0") == ""


def test_the_reason_names_case_and_sizes(tmp_path: Path) -> None:
    net, shape, _ = NETS["last"]
    assert why(tmp_path, net, shape, T, "odd-T-draw0") == (
        "output y changes with what is in the padding (case odd-T-draw0, T=5 in T=9)"
    )

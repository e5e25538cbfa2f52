"""The runner of public suites: what it calls passed, wrong, refused and crashed, on its own items and on real ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from helpers import scripts
from helpers.background import Background

runner: Any = scripts.load("suites.runner")
suites: Any = scripts.load("public_suites")
coverage: Any = scripts.load("coverage_file")

ITEMS = Path(__file__).parent / "helpers" / "suite_items.py"
SUITES: dict[str, Any] = suites.SUITES


def step(function: str) -> Any:
    return runner.Step(function, Path(sys.executable), f"{ITEMS}:{function}")


def test_every_end_of_an_item_is_one_result(tmp_path: Path) -> None:
    items = ["pass", "be wrong", "refuse", "raise", "exit", "die", "pass again", "leave", "hang", "pass at last"]
    heard: list[str] = []
    found = runner.run_steps(
        [step("judge")], {item: {"item": item} for item in items}, tmp_path, seconds=4, say=heard.append
    )
    assert [(item, result.kind, result.stage, result.reason) for item, result in found.items()] == [
        ("pass", "passed", "judge", ""),
        ("be wrong", "wrong", "judge", "off by 1"),
        ("refuse", "refused", "judge", "there is no such operator"),
        ("raise", "refused", "judge", "ValueError: first line"),
        ("exit", "refused", "judge", "SystemExit: 3"),
        ("die", "crashed", "judge", "ended by SIGSEGV"),
        ("pass again", "passed", "judge", ""),
        ("leave", "crashed", "judge", "ended with exit code 7"),
        ("hang", "crashed", "judge", "took longer than 4 s"),
        ("pass at last", "passed", "judge", ""),
    ]
    assert heard == ["judge"] * len(items)
    assert runner.count(found) == {"passed": 3, "wrong": 1, "refused": 3, "crashed": 3}
    tally = suites.tally(found, 99, 20)
    assert {item: tally.kind_of(item) for item in items} == {item: result.kind for item, result in found.items()}
    assert (tally.count, tally.size, tally.stages) == (10, 99, {"judge": 3})
    assert tally.named["wrong"] == {"be wrong": "judge: off by 1"}
    assert list(tally.named["crashed"]) == ["die", "leave", "hang"]


def test_only_items_without_a_result_go_on(tmp_path: Path) -> None:
    requests = {item: {"item": item} for item in ("go on", "refuse")}
    found = runner.run_steps([step("judge")], requests, tmp_path, seconds=20)
    assert {item: result.kind for item, result in found.items()} == {"refuse": "refused"}
    found = runner.run_steps([step("judge"), step("finish")], requests, tmp_path, seconds=20)
    assert found["refuse"].stage == "judge"
    assert found["go on"] == runner.Result("passed", "finish", "go on")


def test_a_result_of_another_kind_is_not_counted() -> None:
    with pytest.raises(ValueError, match="there is no such result as 'fine'"):
        runner.count({"x": runner.Result("fine", "check")})


def test_a_sample_is_the_same_everywhere_and_takes_turns() -> None:
    items = [f"a/{index}" for index in range(50)] + ["b/0", "b/1", "c/0"]
    sample = suites.draw(items, 5, seed=3)
    assert sample == suites.draw(items[::-1], 5, seed=3) == sorted(sample)
    assert [item[0] for item in sample] == ["a", "a", "b", "b", "c"]
    assert suites.draw(items, 5, seed=4) != sample
    assert suites.draw(items, None, seed=3) == suites.draw(items, 53, seed=3) == items


def test_every_suite_stands_in_the_table() -> None:
    committed = coverage.load().suites
    assert {name: set(one.targets) for name, one in committed.items()} == {
        name: set(suite.routes) for name, suite in SUITES.items()
    }, "run make public-suites"
    for one in committed.values():
        for tally in one.targets.values():
            assert 0 < tally.count <= tally.size
            assert (tally.seed is None) == (tally.count == tally.size)
            for kind in ("wrong", "refused", "crashed"):
                assert len(tally.named.get(kind, {})) == getattr(tally, kind)
            assert sum(tally.stages.values()) == tally.refused


def run_tampered(suite: str, target: str, items: list[str], tampered: str, work: Path) -> dict[str, Any]:
    """Run ``items``; the expected output of ``tampered`` is changed by 0.01 in one element before it is compared."""
    chosen = SUITES[suite]
    steps, requests = suites.steps_of(chosen, target), suites.requests_of(chosen, target, items, work)
    found = runner.run_steps(steps[:-1], requests, work, seconds=120)
    assert found == {}
    golden = Path(requests[tampered]["folder"], "golden", "opt-draw0.npz")
    with np.load(golden) as stored:
        arrays: dict[str, Any] = dict(stored)
    for name in [name for name in arrays if name.startswith(("out:", "truth:"))]:
        arrays[name].flat[-1] += 0.01
    np.savez(golden, **arrays)
    results: dict[str, Any] = runner.run_steps(steps[-1:], requests, work, seconds=120)
    return results


#: How many items of each committed sample CI runs again; the draw is the same, so they are the first of that sample.
AGAIN = {
    ("onnx-node", "onnx"): 300,
    ("onnx-node", "tflite"): 60,
    ("onnx-node", "tvm"): 120,
    ("torch-modules", "onnx"): 16,
    ("torch-modules", "tflite"): 8,
    ("export-db", "onnx"): 16,
}
#: From best to worst: what fails with a message is better than a file with wrong numbers.
ORDER = ("passed", "refused", "crashed", "wrong")


def test_every_suite_is_run_again() -> None:
    assert set(AGAIN) == {(name, target) for name, suite in SUITES.items() for target in suite.routes}


def background_job(suite: str, target: str) -> tuple[Any, Callable[[], Any]]:
    for toolchain in ("core", *(phase.toolchain for phase in SUITES[suite].phases(target))):
        suites.python_of(toolchain)  # now, since other tests will point the environment elsewhere
    return (suite, target), lambda: run_again(suite, target)


def run_again(suite: str, target: str) -> tuple[int, dict[str, Any]]:
    """How many items there are, and how the sample of CI ended."""
    with TemporaryDirectory() as folder:
        items = suites.items_of(SUITES[suite], Path(folder))
    sample = suites.draw(items, AGAIN[suite, target], suites.SEED)
    return len(items), suites.run_suite(SUITES[suite], target, sample, seconds=240)


@pytest.mark.toolkit
@pytest.mark.parametrize(("suite", "target"), AGAIN)
def test_no_item_of_the_sample_got_worse(suite: str, target: str, background: Background) -> None:
    tally = coverage.load().suites[suite].targets[target]
    size, found = background.result((suite, target))
    assert size == tally.size, "another version of the package: run make public-suites"
    worse = {
        item: f"{tally.kind_of(item)} before, now {result.kind} at {result.stage}: {result.reason}"
        for item, result in found.items()
        if ORDER.index(result.kind) > ORDER.index(tally.kind_of(item))
    }
    assert worse == {}


KNOWN_GOOD = [
    ("onnx-node", "onnx", ["test_gather_0", "test_matmul_3d", "test_relu", "test_softmax_axis_1"]),
    ("onnx-node", "tflite", ["test_matmul_3d", "test_relu"]),
    ("onnx-node", "tvm", ["test_matmul_3d", "test_relu"]),
    ("torch-modules", "onnx", ["nn_Linear/0", "nn_PReLU/3"]),
    ("torch-modules", "tflite", ["nn_Linear/0"]),
    ("export-db", "onnx", ["class_method", "fn_with_kwargs"]),
]


@pytest.mark.toolkit
@pytest.mark.parametrize(("suite", "target", "items"), KNOWN_GOOD)
def test_known_good_items_pass_and_a_tampered_one_is_wrong(
    suite: str, target: str, items: list[str], tmp_path: Path
) -> None:
    found = run_tampered(suite, target, items, items[-1], tmp_path)
    wrong = found.pop(items[-1])
    assert (wrong.kind, wrong.stage) == ("wrong", "check")
    assert "0.01" in wrong.reason
    assert {item: result.kind for item, result in found.items()} == dict.fromkeys(items[:-1], "passed")


@pytest.mark.toolkit
def test_what_is_no_tensor_of_numbers_is_refused(tmp_path: Path) -> None:
    suite = SUITES["onnx-node"]
    reasons = {
        "test_cast_FLOAT_to_FLOAT8E5M2": "holds object",
        "test_sequence_insert_at_back": "no tensor",
        "test_string_concat": "holds object",
    }
    requests = suites.requests_of(suite, "onnx", list(reasons), tmp_path)
    found = runner.run_steps(suites.steps_of(suite, "onnx")[:1], requests, tmp_path, seconds=120)
    assert {(result.kind, result.stage) for result in found.values()} == {("refused", "source")}
    assert all(reasons[item] in result.reason for item, result in found.items()), found

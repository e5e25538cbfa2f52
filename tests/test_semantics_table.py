"""Every model of the table comes out right, on further inputs too, or is refused in a sentence that names the cause."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from helpers import semantic_data, semantic_memory, semantic_modules, semantic_numbers
from helpers.semantic_table import PASSED, TABLE

pytestmark = pytest.mark.toolkit
FILES = (semantic_data, semantic_memory, semantic_modules, semantic_numbers)
Ask = Callable[[str, str], dict[str, Any]]
#: Where the other converters were seen to have their own ideas.
OTHERS = (
    ("floor_division", "tflite"),
    ("hash_like", "tflite"),
    ("inplace_through_view", "tflite"),
    ("same_output_twice", "tflite"),
    ("scalar_output", "tflite"),
    ("remainder", "tvm"),
    ("rounding", "tvm"),
    ("scalars", "tvm"),
)


def _named(names: list[str]) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.slow if TABLE[name].slow else ()) for name in names]


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    """One process with torch that converts everything."""
    with subprocess.Popen(
        [sys.executable, "-m", "helpers.semantic_run"],
        cwd=Path(__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def ask(server: subprocess.Popen[str], tmp_path: Path) -> Ask:
    """Convert one model of the table to a target."""

    def call(name: str, target: str) -> dict[str, Any]:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(f"{name} {target} {tmp_path}\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        assert answer, "the process that converts has ended"
        return dict(json.loads(answer))

    return call


@pytest.mark.parametrize("name", _named(list(TABLE)))
def test_it_is_right_or_says_why_not(ask: Ask, name: str) -> None:
    result = ask(name, "onnx")
    if TABLE[name].expect == PASSED:
        assert result["said"] == PASSED
    else:
        assert TABLE[name].expect in result["said"]
    assert result["wrong"] == []


@pytest.mark.parametrize(("name", "target"), OTHERS)
def test_other_targets_are_right_too(ask: Ask, name: str, target: str) -> None:
    result = ask(name, target)
    assert result["said"] == PASSED
    assert result["wrong"] == []


def test_tied_weights_are_stored_once(ask: Ask) -> None:
    result = ask("tied", "onnx")
    assert result["said"] == PASSED
    assert 1000 * 64 * 4 < result["size"] < 1.1 * 1000 * 64 * 4


def test_inputs_that_take_another_branch_are_found_and_said(ask: Ask) -> None:
    (note,) = [note for note in ask("branch_lost_in_try", "onnx")["notes"] if "into Python" in note]
    assert note.startswith("forward reads values of its inputs into Python (aten.is_nonzero)")
    assert note.endswith("1 inputs that take another branch were found and are among the cases")

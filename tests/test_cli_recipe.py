"""The recipe for a GPU host that the run of the digits classifier leaves where there is no GPU."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import py_compile
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers import command
from helpers.full_run import DIGITS, HAS_GPU, FullRun

from convert.limits import all_limits
from convert.targets import load_target
from convert.toolchains import find

pytestmark = pytest.mark.toolkit


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def recipe(digits_run: FullRun) -> Path:
    if HAS_GPU:
        pytest.skip("an engine was made instead")
    return digits_run.out / "trt" / "float32"


@pytest.fixture
def script(recipe: Path) -> Iterator[ModuleType]:
    """The recipe's own script, as a module."""
    spec = importlib.util.spec_from_file_location("build_engine_of_the_recipe", recipe / "build_engine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    spec.loader.exec_module(module)
    yield module
    sys.dont_write_bytecode = before


def test_a_recipe_is_whole(digits_run: FullRun, recipe: Path, tmp_path: Path) -> None:
    said = json.loads((recipe / "recipe.json").read_text(encoding="utf-8"))
    there = {path.relative_to(recipe).as_posix() for path in recipe.rglob("*") if path.is_file()}
    assert set(said["sha256"]) == there - {"recipe.json", "manifest.json"}
    assert {name: sha256(recipe / name) for name in said["sha256"]} == said["sha256"]
    assert (recipe / said["onnx"]).read_bytes()
    assert said["profiles"] == {
        "image": {"min": [1, 1, 8, 8], "opt": [8, 1, 8, 8], "max": [64, 1, 8, 8]},
    }
    assert (said["inputs"], said["outputs"]) == (["image"], ["output"])
    golden = digits_run.report.golden
    assert [case["name"] for case in said["cases"]] == [case.name for case in golden.cases]
    assert said["latency_case"] in [case["name"] for case in said["cases"]]
    limits = all_limits(golden, digits_run.out / "golden", "float32", load_target("trt").tolerance.floors)
    assert {case["name"]: case["limits"] for case in said["cases"]} == limits
    py_compile.compile(str(recipe / "build_engine.py"), cfile=str(tmp_path / "compiled.pyc"), doraise=True)


def test_a_recipe_needs_nothing_of_this_project(recipe: Path) -> None:
    tree = ast.parse((recipe / "build_engine.py").read_text(encoding="utf-8"))
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) == {"numpy", "tensorrt", "torch"}


def test_a_recipe_takes_what_is_right_and_refuses_what_is_wrong(recipe: Path, script: ModuleType) -> None:
    said = json.loads((recipe / "recipe.json").read_text(encoding="utf-8"))
    case = next(case for case in said["cases"] if case["name"] == "opt-draw0")
    with np.load(recipe / "golden" / case["file"], allow_pickle=False) as stored:
        golden = {name: stored[name] for name in stored.files}
    right, limit = golden["out:output"], case["limits"]["output"]["max_error"]

    def wrong(value: Any) -> list[str]:
        return list(script.compare({} if value is None else {"output": value}, golden, case["limits"]))

    def at_one_place(value: float) -> Any:
        changed = right.copy()
        changed[1, 2] = value
        return changed

    assert wrong(right) == []
    assert wrong(at_one_place(right[1, 2] + limit / 4)) == []
    for value in (right[1, 2] + 3 * limit, right[1, 2] - 3 * limit):
        (text,) = wrong(at_one_place(value))
        assert text.startswith("output: error ")
        assert f"(limit {limit:.3g})" in text
    for value in (np.nan, np.inf, -np.inf):
        assert wrong(at_one_place(value)) == ["output: NaN or infinity in other places than in the source"]
    odd = ["output: missing, or another shape or dtype than float32[8, 10]"]
    assert wrong(None) == odd
    assert wrong(right[:3]) == odd
    assert wrong(right.T) == odd
    assert wrong(right.astype(np.float64)) == odd
    assert wrong(np.zeros_like(right)) != []


def test_a_parser_has_looked_at_the_recipe(digits_run: FullRun, recipe: Path) -> None:
    del recipe
    notes = [note for note in digits_run.outcome("trt", "float32").notes if note.startswith("parser gate")]
    if find("trt-rtx") is None:
        assert notes == [
            "parser gate not run: the toolchain trt-rtx is not installed; get it with `convert toolchain install "
            "trt-rtx`"
        ]
    else:
        (note,) = notes
        assert re.fullmatch(
            r"parser gate passed: TensorRT for RTX [\d.]+ parses the graph and builds it for SM86; not run", note
        )


def test_recipes_for_other_platforms_say_where_they_are_built(tmp_path: Path) -> None:
    words = ("--target", "trt", "--platform", "linux/arm64,android/arm64", "--allow-deferred")
    done = command.run(DIGITS / "digits.pt2", *words, "--out", tmp_path / "out", cwd=tmp_path)
    assert done.code == 0
    report = json.loads((tmp_path / "out/report.json").read_text(encoding="utf-8"))
    jetson, android = report["artifacts"]
    assert (jetson["status"], jetson["reason"]) == (
        "deferred",
        "its artifact is made on the machine that runs it, and this host is not linux/arm64",
    )
    assert jetson["advice"] == (
        "copy the folder linux-arm64/trt/float32 to a linux/arm64 machine with an NVIDIA GPU and run "
        "`python build_engine.py` in it"
    )
    assert (tmp_path / "out/linux-arm64/trt/float32/build_engine.py").is_file()
    assert (android["status"], android["reason"]) == ("skipped", "there is no trt on android/arm64")
    assert not (tmp_path / "out/android-arm64").exists()

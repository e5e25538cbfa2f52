"""The recipe for a GPU host that the run of the digits classifier leaves where there is no GPU."""

from __future__ import annotations

import ast
import hashlib
import json
import py_compile
import re
import shutil
import subprocess
import sys
from pathlib import Path

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


def test_a_recipe_is_whole(digits_run: FullRun, recipe: Path, tmp_path: Path) -> None:
    said = json.loads((recipe / "recipe.json").read_text(encoding="utf-8"))
    there = {path.relative_to(recipe).as_posix() for path in recipe.rglob("*") if path.is_file()}
    assert set(said["sha256"]) == there - {"recipe.json", "manifest.json", "origin.json"}
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
    names: set[str] = set()
    for file in (recipe / "build_engine.py", *(recipe / "trt_host").glob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
        froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level]
        names |= {alias.name for node in imports for alias in node.names} | {node.module or "" for node in froms}
    others = {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names)
    assert others == {"numpy", "tensorrt", "tensorrt_rtx", "torch", "cuda", "trt_host"}


@pytest.mark.skipif(find("trt-rtx") is None, reason="the toolchain trt-rtx is not installed")
def test_a_recipe_builds_by_its_script_alone(recipe: Path, tmp_path: Path) -> None:
    """Outside of this project and of its environment, from a copy, with dynamic sizes."""
    copy = Path(shutil.copytree(recipe, tmp_path / "copy"))
    variables = {"PATH": "/usr/bin:/bin"}

    def build(*words: str) -> subprocess.CompletedProcess[str]:
        script: list[str | Path] = [command.python_of("trt-rtx"), copy / "build_engine.py", *words]
        return subprocess.run(script, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)

    done = build("--rtx", "sm86,sm120")
    assert done.returncode == 3, done.stderr
    assert re.fullmatch(
        r"built: TensorRT for RTX [\d.]+ built it for SM86, SM120; it was not run, so nothing is proven\n", done.stdout
    )
    result = json.loads((copy / "result.json").read_text(encoding="utf-8"))
    assert (result["status"], result["outputs"], result["gpu"], result["latency"]) == ("built", {}, None, None)
    assert sha256(copy / "model.engine") == result["engine"]["sha256"]
    assert result["recipe_sha256"] == sha256(recipe / "recipe.json")
    assert build("--rtx", "sm90").stdout.endswith("does not build for SM90\n")
    assert not (copy / "model.engine").exists()
    (copy / "model.onnx").write_bytes(b"")
    done = build("--rtx", "sm86")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"build_engine: {copy}/model.onnx was changed since the recipe was made; copy the folder again\n"
    )


def test_a_parser_has_looked_at_the_recipe(digits_run: FullRun, recipe: Path) -> None:
    del recipe
    gate = digits_run.outcome("trt", "float32").gate
    assert gate is not None
    if find("trt-rtx") is None:
        assert (gate.verdict, gate.tool) == ("not run", "")
        assert gate.reason == (
            "the toolchain trt-rtx is not installed; get it with `convert toolchain install trt-rtx`"
        )
    else:
        assert re.fullmatch(r"TensorRT for RTX [\d.]+", gate.tool)
        assert (gate.verdict, gate.reason) == ("passed", "it parses the graph and builds it for SM86; not run")


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
        "copy the folder linux-arm64/trt/float32 to a linux/arm64 machine with an NVIDIA GPU, run "
        f"`python build_engine.py` in it, and fold the copy into this report with `convert merge {tmp_path}/out COPY`"
    )
    assert (tmp_path / "out/linux-arm64/trt/float32/build_engine.py").is_file()
    assert (android["status"], android["reason"]) == ("skipped", "there is no trt on android/arm64")
    assert not (tmp_path / "out/android-arm64").exists()

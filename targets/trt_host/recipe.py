"""Build, check and time the engine of a recipe, and write down what came of it.

    python build_engine.py                # on a GPU host; exit code 0 only if every check passed
    python build_engine.py --rtx sm86     # anywhere: only build, by TensorRT for RTX; exit code 3, nothing was run

Needs tensorrt 11, numpy and torch with CUDA or cuda-python (with ``--rtx``: tensorrt-rtx and numpy), nothing else.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .folder import BadRecipe, Recipe, open_recipe
from .result import BUILT, FAILED, PASSED, Result
from .settings import settings_from

ENGINE = "model.engine"
EXIT = {PASSED: 0, FAILED: 1, BUILT: 3}
_REPEATS = 100


def main(words: list[str] | None = None) -> int:
    """The command line of the script that lies in a recipe."""
    parser = argparse.ArgumentParser(description="Build, check and time the engine of this recipe.")
    parser.add_argument("--recipe", type=Path, default=Path(__file__).resolve().parent.parent, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="folder for the engine and the result [default: the recipe's own]")
    parser.add_argument("--rtx", metavar="SM86,…", help="only build, by TensorRT for RTX, for these capabilities")
    parser.add_argument("--timing-cache", type=Path, default="", help="folder that keeps what the builder has measured")
    given = parser.parse_args(words)
    capabilities = tuple(name.strip().upper() for name in (given.rtx or "").split(",") if name.strip())
    try:
        result = make(open_recipe(given.recipe), given.out or given.recipe, capabilities, str(given.timing_cache))
    except BadRecipe as error:
        print(f"build_engine: {error}", file=sys.stderr)
        return 2
    print(f"{result['status']}: {result['reason']}" if result["reason"] else result["status"])
    return EXIT[result["status"]]


def make(recipe: Recipe, out: Path, capabilities: tuple[str, ...] = (), timing_cache: str = "") -> dict[str, Any]:
    """Do all that ``main`` does and leave ``result.json``, the engine and its outputs in ``out``.

    Args:
        recipe: the opened recipe.
        out: a folder; it is made where it is not there.
        capabilities: for TensorRT for RTX, which builds without a GPU and runs nothing; empty for TensorRT.
        timing_cache: folder; empty for none.

    Returns:
        What was written: see :class:`.result.Result`.
    """
    out.mkdir(parents=True, exist_ok=True)
    result = Result(recipe, out)
    for stale in (out / ENGINE, out / "result.json"):
        stale.unlink(missing_ok=True)
    try:
        if capabilities:
            _build_only(recipe, out, capabilities, result)
        else:
            _build_and_prove(recipe, out, timing_cache, result)
    except Exception as error:  # whatever a toolkit raises: it is a failed engine with a reason
        result.fail(" ".join(f"{error}".split()) or type(error).__name__)
    return result.write()


def _build_only(recipe: Recipe, out: Path, capabilities: tuple[str, ...], result: Result) -> None:
    from .building import build

    result.stage = "toolchain"
    import tensorrt_rtx as trt

    result.versions["tensorrt-rtx"] = trt.__version__
    unknown = [name for name in capabilities if not hasattr(trt.ComputeCapability, name)]
    if unknown:
        raise RuntimeError(f"TensorRT for RTX {trt.__version__} does not build for {unknown[0]}")
    settings = settings_from({"capabilities": list(capabilities)})
    result.stage = "build"
    with result.timed("build"):
        plan = build(trt, recipe.onnx, recipe.profiles, settings)
    result.keep_engine(out / ENGINE, plan)
    names = ", ".join(capabilities)
    result.end(BUILT, f"TensorRT for RTX {trt.__version__} built it for {names}; it was not run, so nothing is proven")


def _build_and_prove(recipe: Recipe, out: Path, timing_cache: str, result: Result) -> None:
    from .building import build
    from .device import gpu_here, why_no_gpu
    from .engine import Engine
    from .inspection import summarise
    from .memory import open_memory
    from .timing import TimingCache

    result.stage = "toolchain"
    if lacking := why_no_gpu():
        raise RuntimeError(lacking)  # before the import: TensorRT crashes where there is no driver
    import tensorrt as trt

    result.gpu = gpu_here(trt.__version__)
    result.versions["tensorrt"] = trt.__version__
    memory = open_memory()
    result.stage = "build"
    cache = TimingCache(Path(timing_cache), result.gpu) if timing_cache else None
    with result.timed("build"):
        plan = build(trt, recipe.onnx, recipe.profiles, recipe.settings, cache)
    result.keep_engine(out / ENGINE, plan)
    result.stage = "check"
    with result.timed("check"):
        engine = Engine(trt, plan, memory)
        result.summary = summarise(engine.inspect())
        failures = _check(recipe, engine, result)
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        result.fail(failures[0] + more)
        return
    result.stage = "latency"
    with recipe.case(recipe.latency_case) as golden:
        rows = engine.measure(recipe.feeds(golden), _REPEATS)
    result.times(rows, engine.memory_mib())
    result.end(PASSED, "")


def _check(recipe: Recipe, engine: Any, result: Result) -> list[str]:
    """Run every case and keep the outputs, so that whoever folds the result into a report judges for himself."""
    from .compare import compare

    failures: list[str] = []
    for case in recipe.cases:
        with recipe.case(case["name"]) as golden:
            outputs = engine.run(recipe.feeds(golden))
            result.keep_outputs(case["name"], outputs)
            found = compare(outputs, golden, case["limits"])
        failures += [f"{case['name']}: {one.wrong}" for one in found if one.wrong]
    return failures

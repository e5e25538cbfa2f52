"""The recipe of an engine: everything a GPU host needs to build, check and time it, in one folder."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from convert.golden_io import CaseData, save_case
from convert.records import Golden
from convert.serial import to_plain, write_json
from convert.specs import shape_at
from convert.targets.base import BuildRequest
from convert.targets.onnx_files import onnx_files
from convert.targets.trt_host.folder import RECIPE, VERSION, sha256_of
from convert.targets.trt_host.settings import EngineSettings
from convert.targets.versions import installed

ONNX, SCRIPT, GOLDEN = "model.onnx", "build_engine.py", "golden"
#: What the script imports: a copy of the package beside this module.
HOST = "trt_host"
_SCRIPT = '''"""Build, check and time the engine of this recipe: python build_engine.py --help."""

import sys

sys.dont_write_bytecode = True  # the folder stays what its hashes say

from trt_host.recipe import main

if __name__ == "__main__":
    sys.exit(main())
'''


def profiles(golden: Golden) -> dict[str, dict[str, list[int]]]:
    """Input name -> its smallest, usual and largest shape, for the inputs that have dynamic sizes."""
    sizes = {word: {dim.name: getattr(dim, word) for dim in golden.dims} for word in ("min", "opt", "max")}
    return {
        spec.name: {word: list(shape_at(spec, values)) for word, values in sizes.items()}
        for spec in golden.inputs
        if any(isinstance(size, str) for size in spec.shape)
    }


def write(
    request: BuildRequest,
    shapes: dict[str, dict[str, list[int]]],
    settings: EngineSettings,
    more: Mapping[str, CaseData],
) -> tuple[str, ...]:
    """Fill ``request.folder``; returns the names of its files, the recipe first. ``more`` are cases besides golden."""
    assert request.onnx is not None  # noqa: S101  (a route that needs onnx gets it)
    folder = request.folder
    graph = [name.replace(request.onnx.name, ONNX) for name in onnx_files(request.onnx)]
    for name in graph:
        shutil.copyfile(request.onnx.parent / name.replace(ONNX, request.onnx.name), folder / name)
    (folder / SCRIPT).write_text(_SCRIPT, encoding="utf-8")
    package = _copy_package(folder / HOST)
    (folder / GOLDEN).mkdir()
    for case in request.golden.cases:
        shutil.copyfile(request.golden_folder / case.file, folder / GOLDEN / case.file)
    for name, data in more.items():
        save_case(folder / GOLDEN / f"{name}.npz", data)
    names = (*(case.file for case in request.golden.cases), *(f"{name}.npz" for name in more))
    others = (*graph, SCRIPT, *package, *(f"{GOLDEN}/{name}" for name in names))
    write_json(folder / RECIPE, _recipe(request, shapes, settings, others, more))
    return (RECIPE, *others)


def _copy_package(to: Path) -> tuple[str, ...]:
    to.mkdir()
    modules = sorted(Path(__file__).with_name(HOST).glob("*.py"))
    for module in modules:
        shutil.copyfile(module, to / module.name)
    return tuple(f"{HOST}/{module.name}" for module in modules)


def _recipe(
    request: BuildRequest,
    shapes: dict[str, Any],
    settings: EngineSettings,
    files: tuple[str, ...],
    more: Mapping[str, CaseData],
) -> dict[str, Any]:
    limits = request.settings["limits"]
    usual = {dim.name: dim.opt for dim in request.golden.dims}
    cases = [(case.name, case.file, case.dims) for case in request.golden.cases]
    cases += [(name, f"{name}.npz", usual) for name in more]
    return {
        "recipe_version": VERSION,
        "target": "trt",
        "precision": request.precision,
        "onnx": ONNX,
        "command": f"python {SCRIPT}",
        "needs": ["tensorrt>=11", "numpy", "torch with CUDA or cuda-python"],
        "inputs": [spec.name for spec in request.golden.inputs],
        "outputs": [spec.name for spec in request.golden.outputs],
        "profiles": shapes,
        "settings": dataclasses.asdict(settings),
        "latency_case": "opt-draw0",
        # For the report of a host that has only this folder.
        "golden": to_plain(request.golden),
        "cases": [
            {"name": name, "file": file, "dims": dims, "limits": limits[name]}
            for name, file, dims in cases
            if name in limits
        ],
        "made_with": installed("onnx", "torch", "numpy"),
        "sha256": {name: sha256_of(request.folder / name) for name in files},
    }

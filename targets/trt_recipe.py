"""The recipe of an engine: everything a GPU host needs to build, check and time it, in one folder."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from convert.golden_io import CaseData, save_case
from convert.records import Golden
from convert.serial import write_json
from convert.specs import shape_at
from convert.targets.base import BuildRequest
from convert.targets.onnx_files import onnx_files
from convert.targets.versions import installed

ONNX, RECIPE, SCRIPT, GOLDEN = "model.onnx", "recipe.json", "build_engine.py", "golden"


def profiles(golden: Golden) -> dict[str, dict[str, list[int]]]:
    """Input name -> its smallest, usual and largest shape, for the inputs that have dynamic sizes."""
    sizes = {word: {dim.name: getattr(dim, word) for dim in golden.dims} for word in ("min", "opt", "max")}
    return {
        spec.name: {word: list(shape_at(spec, values)) for word, values in sizes.items()}
        for spec in golden.inputs
        if any(isinstance(size, str) for size in spec.shape)
    }


def write(
    request: BuildRequest, shapes: dict[str, dict[str, list[int]]], more: Mapping[str, CaseData]
) -> tuple[str, ...]:
    """Fill ``request.folder``; returns the names of its files, the recipe first. ``more`` are cases besides golden."""
    assert request.onnx is not None  # noqa: S101  (a route that needs onnx gets it)
    folder = request.folder
    graph = [name.replace(request.onnx.name, ONNX) for name in onnx_files(request.onnx)]
    for name in graph:
        shutil.copyfile(request.onnx.parent / name.replace(ONNX, request.onnx.name), folder / name)
    shutil.copyfile(Path(__file__).with_name("trt_engine.py"), folder / SCRIPT)
    (folder / GOLDEN).mkdir()
    for case in request.golden.cases:
        shutil.copyfile(request.golden_folder / case.file, folder / GOLDEN / case.file)
    for name, data in more.items():
        save_case(folder / GOLDEN / f"{name}.npz", data)
    names = (*(case.file for case in request.golden.cases), *(f"{name}.npz" for name in more))
    others = (*graph, SCRIPT, *(f"{GOLDEN}/{name}" for name in names))
    write_json(folder / RECIPE, _recipe(request, shapes, others, more))
    return (RECIPE, *others)


def _recipe(
    request: BuildRequest, shapes: dict[str, Any], files: tuple[str, ...], more: Mapping[str, CaseData]
) -> dict[str, Any]:
    limits = request.settings["limits"]
    usual = {dim.name: dim.opt for dim in request.golden.dims}
    cases = [(case.name, case.file, case.dims) for case in request.golden.cases]
    cases += [(name, f"{name}.npz", usual) for name in more]
    return {
        "recipe_version": 1,
        "target": "trt",
        "precision": request.precision,
        "onnx": ONNX,
        "command": f"python {SCRIPT}",
        "needs": ["tensorrt>=11", "numpy", "torch with CUDA"],
        "inputs": [spec.name for spec in request.golden.inputs],
        "outputs": [spec.name for spec in request.golden.outputs],
        "profiles": shapes,
        "latency_case": "opt-draw0",
        "cases": [
            {"name": name, "file": file, "dims": dims, "limits": limits[name]}
            for name, file, dims in cases
            if name in limits
        ],
        "made_with": installed("onnx", "torch", "numpy"),
        "sha256": {name: hashlib.sha256((request.folder / name).read_bytes()).hexdigest() for name in files},
    }

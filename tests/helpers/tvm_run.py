"""Compile ONNX files with TVM and run them. Run by the Python of that toolchain: ``tvm_run.py FOLDER``.

For each ``NAME.onnx`` in the folder, ``NAME.npz`` holds feeds and results as ``CASE/in/INPUT`` and ``CASE/out/INDEX``.
Prints, as JSON, name -> largest error over all cases, or the message where it cannot be compiled.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import relax

from convert.errors import StageError
from convert.targets.tvm_frontend import import_graph


def error_of(file: Path) -> float | str:
    """Largest difference from the results that were stored."""
    model = onnx.load(str(file))
    try:
        library = tvm.compile(import_graph(model), target=tvm.target.Target({"kind": "llvm"}))
    except StageError as refused:
        return str(refused)
    library.export_library(str(file.with_suffix(".so")))
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(file.with_suffix(".so"))), tvm.cpu())
    worst = 0.0
    with np.load(file.with_suffix(".npz")) as stored:
        for case in {name.split("/")[0] for name in stored.files}:
            feeds = [tvm.runtime.tensor(stored[f"{case}/in/{entry.name}"]) for entry in model.graph.input]
            result: Any = machine["main"](*feeds)
            values = [result] if hasattr(result, "numpy") else list(result)
            assert len(values) == len(model.graph.output)
            for index, value in enumerate(values):
                wanted = stored[f"{case}/out/{index}"]
                assert value.numpy().shape == wanted.shape, (case, index, value.numpy().shape, wanted.shape)
                worst = max(worst, float(np.abs(value.numpy() - wanted).max(initial=0)))
    return worst


if __name__ == "__main__":
    print(json.dumps({file.stem: error_of(file) for file in sorted(Path(sys.argv[1]).glob("*.onnx"))}))

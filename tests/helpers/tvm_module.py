"""Compile an ONNX file to one module. Run by TVM's Python: ``tvm_module.py MODEL.onnx MODEL.so PLATFORM MCPU ZIG…``.

For another platform than this host's, MCPU may be one that stands in no table of this project.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any


def build(model: Path, file: Path, platform: str, mcpu: str = "", zig: tuple[str, ...] = ()) -> Path:
    """Compile ``model`` to ``file``, in a process of TVM's Python."""
    from helpers import command  # not in that process, whose Python lacks what it needs

    folders = f"{command.ROOT}:{Path(__file__).parent.parent}"
    words: list[str | Path] = [command.python_of("tvm"), __file__, model, file, platform, mcpu, *zig]
    file.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(words, env=os.environ | {"PYTHONPATH": folders}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return file


def main(model: str, file: Path, platform: str, mcpu: str, zig: list[str]) -> None:
    """Compile as a build does, in the folder of ``file``."""
    import onnx

    from convert.platforms import PLATFORMS, Cpu
    from convert.targets.base import BuildRequest
    from convert.targets.tvm_compile import compile_module
    from convert.targets.tvm_frontend import import_graph

    if mcpu:
        PLATFORMS[platform] = replace(PLATFORMS[platform], cpus=(Cpu("odd", mcpu),))
    none: Any = None
    place, settings = file.parent, {"zig": zig}
    request = BuildRequest(
        "tvm", "float32", "onnx", none, place, place, place, settings=settings, platform=platform, cpu=mcpu and "odd"
    )
    compile_module(import_graph(onnx.load(model)), file, request)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:])

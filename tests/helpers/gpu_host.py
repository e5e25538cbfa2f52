"""A host that looks as if it had a GPU: the stand-in of ``gpu_standin`` behind the toolchain ``trt``."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from helpers.command import Variables, python_of
from helpers.fakes import shell_python

STANDIN = Path(__file__).with_name("gpu_standin")
NAME = "STAND-IN, NO GPU"


def gpu_python(folder: Path, **said: str) -> Path:
    """An interpreter with the packages of core, the stand-in for TensorRT and a driver; ``said`` are its variables."""
    libraries = folder / "lib"
    libraries.mkdir(parents=True)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        command = ["cc", "-shared", "-fPIC", "-o", str(libraries / name), str(STANDIN / "libcuda.c")]
        subprocess.run(command, check=True)
    packages = folder / "env" / "lib" / "python3.12" / "site-packages"
    words = {"PYTHONPATH": f"{STANDIN}:{packages}", "LD_LIBRARY_PATH": str(libraries), **said}
    sets = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in words.items())
    python = shell_python(folder / "env", f'{sets}\nexec {shlex.quote(str(python_of("core")))} "$@"')
    for name, version in (("tensorrt", "11.4.0.1"), ("onnx", "1.23.2"), ("numpy", "2.0")):
        info = packages / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    return python


def gpu_host(folder: Path, **said: str) -> Variables:
    """The variables that make a command see it."""
    return {"CONVERT_PYTHON_TRT": gpu_python(folder, **said)}

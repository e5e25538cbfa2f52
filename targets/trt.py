"""TensorRT: an engine where there is an NVIDIA GPU, else a recipe that builds and proves one on a host that has it.

Nothing here pretends to be a GPU: without one the outcome is ``deferred``, whatever the parser gate says.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from convert.records import Artifact
from convert.targets import trt_engine, trt_precision, trt_recipe
from convert.targets.base import Arrays, BuildRequest, Route, Session, Target, Tolerance
from convert.targets.onnx import io_as_exported
from convert.targets.versions import installed

ENGINE = "model.engine"


class TensorRT(Target):
    """A serialised TensorRT engine, bound to the GPU, driver and TensorRT version that built it."""

    name: ClassVar[str] = "trt"
    summary: ClassVar[str] = "TensorRT engine (NVIDIA GPU; a recipe where there is none)"
    precisions: ClassVar[tuple[str, ...]] = ("float32", "float16", "int8")
    max_opset: ClassVar[int] = 20
    runtime_toolchain: ClassVar[str] = "trt"
    runtime_borrows: ClassVar[str | None] = "core"  # torch holds the device's memory
    distributions: ClassVar[tuple[str, ...]] = ("tensorrt",)
    tolerance: ClassVar[Tolerance] = Tolerance(
        50.0, "not yet measured on a GPU: with TF32 off, other kernels and orders of summation are allowed for"
    )
    device: ClassVar[str] = "an NVIDIA GPU"
    gate_toolchain: ClassVar[str] = "trt-rtx"
    portable: ClassVar[bool] = False
    not_on: ClassVar[tuple[str, ...]] = ("android/arm64", "linux/arm/v7", "linux/riscv64")

    def routes(self, precision: str) -> tuple[Route, ...]:
        """The engine, for hosts with a GPU."""
        del precision
        return (Route("engine", "trt", borrows="core"),)

    def deferred_route(self) -> Route:
        """The recipe, for hosts without one."""
        return Route("recipe", "core")

    def probe(self) -> str:
        """Why no engine can be built or run here; empty where it can. Meant for a child process.

        TensorRT itself crashes without a driver, so the driver is asked first.
        """
        library = ctypes.util.find_library("cuda") or "libcuda.so.1"
        try:
            driver = ctypes.CDLL(library)
        except OSError:
            return "this host has no NVIDIA driver (libcuda.so.1 is not there)"
        code = driver.cuInit(0)
        if code != 0:
            return f"the NVIDIA driver finds no usable GPU (cuInit gave {code})"
        if not installed("tensorrt"):
            return "TensorRT is not installed here"
        return ""

    def _build(self, request: BuildRequest) -> Artifact:
        # Whatever the precision, it stands in the graph; the builder has no switch for it.
        written = trt_precision.write_precision(request)
        request = written.request
        assert request.onnx is not None  # noqa: S101  (a route that needs onnx gets it)
        profiles = trt_recipe.profiles(request.golden)
        if request.route == "recipe":
            files = trt_recipe.write(request, profiles, written.cases or {})
        else:
            trt_engine.build(request.onnx, request.folder / ENGINE, profiles)
            files = (ENGINE,)
        return Artifact(
            "trt",
            request.precision,
            request.route,
            files,
            io_as_exported(request.golden),
            request.platform,
            written.notes,
            installed("tensorrt", "onnx", "onnxruntime"),
            operators=written.operators,
        )

    def open(self, artifact: Artifact, folder: Path, threads: int) -> Session:
        """Load the engine onto the GPU; ``threads`` has no meaning there."""
        del threads
        return TrtSession(folder / artifact.files[0])


class TrtSession(Session):
    """An engine with its execution context and device buffers."""

    def __init__(self, file: Path) -> None:
        """Deserialise ``file``."""
        self._engine = trt_engine.Engine(file)

    def run(self, feeds: Arrays) -> dict[str, Any]:
        """See :meth:`Session.run`."""
        return self._engine.run({name: np.asarray(value, order="C") for name, value in feeds.items()})

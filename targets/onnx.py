"""ONNX, run by onnxruntime: on the CPU, or on a GPU where that was asked for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, ClassVar

from convert.platforms import host_platform
from convert.records import Artifact, Golden, IoEntry, Layer, Operators
from convert.targets import onnx_quant, onnx_sensitivity
from convert.targets.base import BuildRequest, Route, Session, Target, Tolerance
from convert.targets.onnx_files import onnx_files
from convert.targets.onnx_float16 import to_float16
from convert.targets.onnx_session import OrtSession
from convert.targets.versions import installed

FILE = "model.onnx"


def io_as_exported(golden: Golden) -> tuple[IoEntry, ...]:
    """The interface of a file that kept every name, dtype and layout of the source."""
    return tuple(
        IoEntry(
            spec.name,
            role,
            spec.name,
            spec.dtype,
            tuple(s if isinstance(s, int) else -1 for s in spec.shape),
            source_dtype=spec.dtype,
        )
        for role, specs in (("input", golden.inputs), ("output", golden.outputs))
        for spec in specs
    )


class Onnx(Target):
    """The exported graph itself in float32, with float16 weights and arithmetic, or with integers."""

    name: ClassVar[str] = "onnx"
    summary: ClassVar[str] = "ONNX for onnxruntime (CPU, or GPU with --provider)"
    precisions: ClassVar[tuple[str, ...]] = ("float32", "float16", "int8-dynamic", "int8")
    max_opset: ClassVar[int] = 20
    runtime_toolchain: ClassVar[str] = "core"
    distributions: ClassVar[tuple[str, ...]] = ("onnxruntime", "onnxruntime-gpu", "onnx")
    tolerance: ClassVar[Tolerance] = Tolerance(
        10.0, "onnxruntime's CPU kernels were measured at up to 3.7 floors; fused and reordered sums add a few more"
    )

    def routes(self, precision: str) -> tuple[Route, ...]:
        """The export is the artifact; float16 rewrites it, and integers are made from the file that passed."""
        if precision in onnx_quant.ROUTES:
            return tuple(Route(name, "core", needs="base") for name in onnx_quant.ROUTES[precision])
        return (Route("export" if precision == "float32" else "float16", "core"),)

    def base_precision(self, precision: str) -> str | None:
        """Integers are made from the float32 file that passed."""
        return "float32" if precision in onnx_quant.ROUTES else None

    def sensitivity(self, request: BuildRequest) -> tuple[Layer, ...]:
        """See :meth:`Target.sensitivity`."""
        return onnx_sensitivity.rank(request)

    def _build(self, request: BuildRequest) -> Artifact:
        notes: tuple[str, ...] = ()
        operators: Operators | None = None
        provider = request.settings.get("provider", "cpu")
        settings: dict[str, Any] = {} if provider == "cpu" else {"provider": provider}
        if request.precision in onnx_quant.ROUTES:
            notes, operators = onnx_quant.write_int8(request, request.folder / FILE)
        elif request.precision == "float16":
            half = to_float16(request, _graph(request), request.folder / FILE)
            notes, settings = half.notes, settings | half.settings
        else:
            for name in onnx_files(_graph(request)):
                shutil.copyfile(_graph(request).with_name(name), request.folder / name)
        return Artifact(
            "onnx",
            request.precision,
            request.route,
            onnx_files(request.folder / FILE),
            io_as_exported(request.golden),
            host_platform(),
            notes,
            installed("onnx", "onnxruntime", "onnxruntime-gpu", "torch", "onnxscript", "onnxslim"),
            settings=settings,
            operators=operators,
        )

    def open(self, artifact: Artifact, folder: Path, threads: int) -> Session:
        """An inference session with default optimisations, as most users run it, on the artifact's provider."""
        return OrtSession(
            folder / artifact.files[0], threads, artifact.settings.get("provider", "cpu"), artifact.precision
        )


def _graph(request: BuildRequest) -> Path:
    assert request.onnx is not None  # noqa: S101  (a route that needs onnx gets it)
    return request.onnx

"""ONNX, run by onnxruntime on the CPU."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, ClassVar

from convert.errors import StageError
from convert.platforms import host_platform
from convert.records import Artifact, Golden, IoEntry, Layer, Operators
from convert.targets import onnx_quant, onnx_sensitivity
from convert.targets.base import Arrays, BuildRequest, Route, Session, Target, Tolerance
from convert.targets.onnx_files import onnx_files
from convert.targets.onnx_float16 import to_float16
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
    summary: ClassVar[str] = "ONNX for onnxruntime (CPU)"
    precisions: ClassVar[tuple[str, ...]] = ("float32", "float16", "int8-dynamic", "int8")
    max_opset: ClassVar[int] = 20
    runtime_toolchain: ClassVar[str] = "core"
    distributions: ClassVar[tuple[str, ...]] = ("onnxruntime", "onnx")
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
        settings: dict[str, Any] = {}
        if request.precision in onnx_quant.ROUTES:
            notes, operators = onnx_quant.write_int8(request, request.folder / FILE)
        elif request.precision == "float16":
            half = to_float16(request, _graph(request), request.folder / FILE)
            notes, settings = half.notes, half.settings
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
            installed("onnx", "onnxruntime", "torch", "onnxscript", "onnxslim"),
            settings=settings,
            operators=operators,
        )

    def open(self, artifact: Artifact, folder: Path, threads: int) -> Session:
        """An inference session on the CPU with default optimisations, as most users run it."""
        return OrtSession(folder / artifact.files[0], threads)


def _graph(request: BuildRequest) -> Path:
    assert request.onnx is not None  # noqa: S101  (a route that needs onnx gets it)
    return request.onnx


class OrtSession(Session):
    """An onnxruntime session on the CPU provider, which is read back and never silently another one."""

    def __init__(self, file: Path, threads: int) -> None:
        """Load ``file`` with ``threads`` intra-operator threads."""
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's own, of many types; its text starts with the path of the file
            text = str(error).replace(f"Load model from {file} failed:", "").split("\n")[0]
            raise StageError(f"onnxruntime does not take the graph: {type(error).__name__}: {text}"[:500]) from error
        self._outputs = [value.name for value in self._session.get_outputs()]

    def run(self, feeds: Arrays) -> dict[str, Any]:
        """See :meth:`Session.run`."""
        return dict(zip(self._outputs, self._session.run(self._outputs, dict(feeds)), strict=True))

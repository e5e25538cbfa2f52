"""ONNX, run by onnxruntime on the CPU."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, ClassVar

from convert.errors import StageError
from convert.records import Artifact, Golden, IoEntry
from convert.targets.base import Arrays, BuildRequest, Route, Session, Target, Tolerance, host_platform
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
    """The exported graph itself, in float32 or with float16 weights and arithmetic."""

    name: ClassVar[str] = "onnx"
    summary: ClassVar[str] = "ONNX for onnxruntime (CPU)"
    precisions: ClassVar[tuple[str, ...]] = ("float32", "float16")
    max_opset: ClassVar[int] = 20
    runtime_toolchain: ClassVar[str] = "core"
    distributions: ClassVar[tuple[str, ...]] = ("onnxruntime", "onnx")
    tolerance: ClassVar[Tolerance] = Tolerance(
        10.0, "onnxruntime's CPU kernels were measured at up to 3.7 floors; fused and reordered sums add a few more"
    )

    def routes(self, precision: str) -> tuple[Route, ...]:
        """The export is the artifact; float16 rewrites it."""
        return (Route("export" if precision == "float32" else "float16", "core"),)

    def _build(self, request: BuildRequest) -> Artifact:
        assert request.onnx is not None  # noqa: S101  (a route that needs onnx gets it)
        notes: tuple[str, ...] = ()
        if request.precision == "float16":
            notes = to_float16(request, request.onnx, request.folder / FILE)
        else:
            for name in onnx_files(request.onnx):
                shutil.copyfile(request.onnx.with_name(name), request.folder / name)
        return Artifact(
            "onnx",
            request.precision,
            request.route,
            onnx_files(request.folder / FILE),
            io_as_exported(request.golden),
            host_platform(),
            notes,
            installed("onnx", "onnxruntime", "torch", "onnxscript", "onnxslim"),
        )

    def open(self, artifact: Artifact, folder: Path, threads: int) -> Session:
        """An inference session on the CPU with default optimisations, as most users run it."""
        return OrtSession(folder / artifact.files[0], threads)


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

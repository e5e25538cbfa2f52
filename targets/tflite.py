"""TFLite, run by the stock LiteRT interpreter on the CPU.

Several routes, since each converter is wrong or fails where another is right; the check decides which file is taken.
litert-torch writes files with fixed sizes that the runtime can often resize; onnx2tf keeps dynamic sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from convert.errors import StageError
from convert.platforms import host_platform
from convert.precisions import CALIBRATED, FIXED
from convert.records import Artifact, Golden, InputSpec, Layer
from convert.targets import tflite_build, tflite_sensitivity
from convert.targets.base import BuildRequest, Route, Session, Target, Tolerance
from convert.targets.tflite_operators import read_operators, require_full_integer
from convert.targets.tflite_quant import FIXED_AT, INTEGER
from convert.targets.tflite_session import LiteRtSession, describe_io
from convert.targets.versions import installed

FILE = "model.tflite"
_INT32_MAX = 2**31 - 1
_UNROLLED = (
    "litert-torch unrolls the length, and onnx2tf and TensorFlow's converter give files that fail at other sizes or "
    "do not run; right by litert-torch-resized, which needs the module, and right by litert-torch with fixed sizes"
)
#: Seen when the routes were compared model by model (docs/targets.md).
PROBLEMS: Mapping[str, str] = {
    "aten.lstm": _UNROLLED,
    "aten.gru": _UNROLLED,
    "aten.rnn_tanh": _UNROLLED,
    "aten.rnn_relu": _UNROLLED,
    "LSTM": _UNROLLED,
    "GRU": _UNROLLED,
    "aten.pow": "litert-torch may write an operator that LiteRT lacks for it; right by onnx2tf, or written as x * x",
    "aten.einsum": "onnx2tf's file fails at another batch; right by litert-torch, or by onnx2tf with fixed sizes",
    "Einsum": "onnx2tf's file fails at another batch; right with fixed sizes",
    "aten.conv3d": "onnx2tf's file fails at another batch; right by litert-torch, or by onnx2tf with fixed sizes",
    "aten.scaled_dot_product_attention": "onnx2tf was seen to be wrong or not to run on it; right by litert-torch",
    "Loop": "onnx2tf fails on loops; unroll it, or give the module for litert-torch",
}


class TFLite(Target):
    """A ``.tflite`` file with built-in operators only."""

    name: ClassVar[str] = "tflite"
    summary: ClassVar[str] = "TFLite for LiteRT (CPU, XNNPACK)"
    precisions: ClassVar[tuple[str, ...]] = ("float32", "float16", "int8-dynamic", "int8", "int16x8")
    max_opset: ClassVar[int] = 18
    runtime_toolchain: ClassVar[str] = "core"
    distributions: ClassVar[tuple[str, ...]] = ("ai-edge-litert", "litert-torch", "ai-edge-quantizer")
    tolerance: ClassVar[Tolerance] = Tolerance(
        20.0, "XNNPACK sums in another order and approximates exp and tanh; measured at up to 8.5 floors"
    )

    def routes(self, precision: str) -> tuple[Route, ...]:
        """litert-torch first: it is right on the most architectures."""
        if precision == "float16":
            return (Route("float_casting", "core", needs="base"),)
        if precision == "int8-dynamic":
            return (Route("ai-edge-quantizer", "core", needs="base"),)
        if precision in INTEGER:
            return (
                Route("ai-edge-quantizer", "core", needs="base"),
                Route("ai-edge-quantizer-frozen", "core", needs="base"),
                Route("tf_converter-quantized", "onnx2tf"),
            )
        return (
            Route("litert-torch", "core", needs="source"),
            Route("onnx2tf", "onnx2tf"),
            Route("litert-torch-resized", "core", needs="source"),
            Route("litert-torch-dynamic", "core", needs="source"),
            Route("onnx2tf-frozen", "onnx2tf"),
            Route("tf_converter", "onnx2tf"),
        )

    def base_precision(self, precision: str) -> str | None:
        """Lower precisions are cast from the float32 file that passed."""
        return None if precision == "float32" else "float32"

    def problem_operators(self) -> Mapping[str, str]:
        """What the converters were seen to get wrong."""
        return PROBLEMS

    def sensitivity(self, request: BuildRequest) -> tuple[Layer, ...]:
        """The operators of an integer file by the noise that each alone adds."""
        return tflite_sensitivity.rank(request)

    def _build(self, request: BuildRequest) -> Artifact:
        _require_int32(request.golden)
        file = request.folder / FILE
        notes = tflite_build.ROUTES[request.route](request, file)
        if not file.is_file():
            raise StageError(f"{request.route} ended without an error and wrote no TFLite file")
        integer = request.precision in INTEGER
        if request.precision in CALIBRATED and request.quantization.require_full_integer:
            require_full_integer(file)
        io, io_notes = describe_io(request, file)
        return Artifact(
            "tflite",
            request.precision,
            request.route,
            (FILE,),
            io,
            host_platform(),
            (*notes, *io_notes),
            installed("litert-torch", "ai-edge-litert", "ai-edge-quantizer", "onnx2tf", "tensorflow"),
            settings={FIXED: True} if any(note.startswith(FIXED_AT) for note in notes) else {},
            operators=read_operators(file) if integer else None,
        )

    def open(self, artifact: Artifact, folder: Path, threads: int) -> Session:
        """The stock interpreter with its default delegate."""
        return LiteRtSession(folder / artifact.files[0], artifact.io, threads)


def _require_int32(golden: Golden) -> None:
    """The runtime has int32 where the source has int64; what cannot fit is refused before it could wrap."""
    for spec in golden.inputs:
        if spec.dtype in ("int64", "uint32", "uint64") and not _fits(spec):
            raise StageError(
                f"input {spec.name} goes up to {spec.high}, and TFLite takes it as int32 (at most "
                f"{_INT32_MAX}), so it would wrap",
                f"state a smaller range with --input '{spec.name}=…{{0..{_INT32_MAX}}}'",
            )


def _fits(spec: InputSpec) -> bool:
    return all(bound is None or -_INT32_MAX - 1 <= bound <= _INT32_MAX for bound in (spec.low, spec.high))

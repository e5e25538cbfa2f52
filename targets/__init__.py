"""The runtimes that an artifact can be made for. One line here and one file beside this one add a target."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convert.targets.base import Target

TARGETS: dict[str, str] = {
    "onnx": "convert.targets.onnx:Onnx",
    "tflite": "convert.targets.tflite:TFLite",
    "tvm": "convert.targets.tvm:Tvm",
    "trt": "convert.targets.trt:TensorRT",
    "trt-rtx": "convert.targets.trt_rtx:TensorRTForRTX",
}


def load_target(name: str) -> Target:
    """Make the target called ``name``; raises ``KeyError`` for a name that is not in ``TARGETS``."""
    module, _, cls = TARGETS[name].partition(":")
    target: Target = getattr(import_module(module), cls)()
    return target

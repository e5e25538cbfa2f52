"""Quantize an ONNX file ``x`` [N, 8] -> ``y`` [N, 4] by the fallback route, and run it; for the onnx2tf toolchain.

``quantize_by_tensorflow.py MODEL.onnx FOLDER PRECISION IO_TYPE`` prints one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime

sys.path.insert(0, str(Path(__file__).parent.parent))
from convert.records import Quantization
from convert.targets.tflite import TFLite
from helpers.tflite_files import Data, request

onnx, place, precision, io_type = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
batches = np.random.default_rng(0).normal(size=(30, 2, 8)).astype(np.float32)
asked = request(place, b"", 8, 4, Data(batches), precision=precision, route="tf_converter-quantized")
asked = replace(asked, base=None, onnx=onnx, quantization=Quantization(io_type=io_type))
os.chdir(asked.scratch)
artifact = TFLite().build(asked)
session = TFLite().open(artifact, asked.folder, 1)
truth = onnxruntime.InferenceSession(str(onnx), providers=["CPUExecutionProvider"])
errors = [np.abs(session.run({"x": batch})["y"] - truth.run(None, {"x": batch})[0]).max() for batch in batches]
operators = artifact.operators
print(
    json.dumps(
        {
            "error": float(max(errors)),
            "floating": operators.floating if operators else None,
            "types": [entry.dtype for entry in artifact.io],
            "notes": artifact.notes,
            "settings": artifact.settings,
        }
    )
)

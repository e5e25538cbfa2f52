"""The fallback for integer TFLite files: TensorFlow's converter, in its own toolchain."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import command
from helpers.tflite_files import Data, request

from convert.errors import StageError
from convert.targets.tflite import TFLite

SCRIPT = Path(__file__).parent / "helpers" / "quantize_by_tensorflow.py"


@pytest.mark.slow
@pytest.mark.toolkit
@pytest.mark.parametrize(
    ("precision", "io_type", "dtype", "most"),
    [("int8", "float", "float32", 0.1), ("int8", "int8", "int8", 0.1), ("int16x8", "float", "float32", 0.04)],
)
def test_fallback_gives_a_right_and_fully_integer_file(
    tmp_path: Path, small_onnx: Path, precision: str, io_type: str, dtype: str, most: float
) -> None:
    words = [str(word) for word in (command.python_of("onnx2tf"), SCRIPT, small_onnx, tmp_path, precision, io_type)]
    done = subprocess.run(words, env=command.importing(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["error"] < most
    assert found["floating"] == {}
    assert found["types"] == [dtype, dtype]
    assert found["notes"] == ["ranges measured by TensorFlow on 30 batches by minmax", "every size is fixed at N=2"]
    assert found["settings"] == {"fixed": True}


@pytest.mark.toolkit
@pytest.mark.parametrize("wish", ["no data", "kept", "learned"])
def test_fallback_refuses_what_it_cannot_do(tmp_path: Path, wish: str) -> None:
    asked = request(tmp_path, b"", 8, 4, Data([]), route="tf_converter-quantized")
    changed = {
        "no data": replace(asked, calibration=None),
        "kept": replace(asked, keep=("y",)),
        "learned": replace(asked, ranges={}),
    }
    with pytest.raises(StageError) as caught:
        TFLite().build(changed[wish])
    assert caught.value.reason == (
        "TensorFlow's converter quantizes with calibration data only, and the whole of the model"
    )

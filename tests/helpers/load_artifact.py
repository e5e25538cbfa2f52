"""Load an artifact by its own runtime, with nothing of this project, and compare it with a golden case.

Run by the Python of the runtime's toolchain: ``load_artifact.py FOLDER CASE.npz``. Prints the largest error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, Any]


def onnx(file: Path, io: list[dict[str, Any]]) -> Callable[[Arrays], Arrays]:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    names = [entry["name"] for entry in io if entry["role"] == "output"]
    return lambda feeds: dict(zip(names, session.run(names, feeds), strict=True))


def tflite(file: Path, io: list[dict[str, Any]]) -> Callable[[Arrays], Arrays]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(file))
    inputs = {detail["name"]: detail["index"] for detail in interpreter.get_input_details()}
    outputs = {detail["name"]: detail["index"] for detail in interpreter.get_output_details()}
    assert {entry["name"] for entry in io} == {*inputs, *outputs}

    def run(feeds: Arrays) -> Arrays:
        for name, value in feeds.items():
            interpreter.resize_tensor_input(inputs[name], value.shape)
        interpreter.allocate_tensors()
        for name, value in feeds.items():
            interpreter.set_tensor(inputs[name], value)
        interpreter.invoke()
        return {name: interpreter.get_tensor(index) for name, index in outputs.items()}

    return run


def tvm(file: Path, io: list[dict[str, Any]]) -> Callable[[Arrays], Arrays]:
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(tvm.runtime.load_module(str(file)), tvm.cpu())
    inputs = [entry["name"] for entry in io if entry["role"] == "input"]
    outputs = [entry["name"] for entry in io if entry["role"] == "output"]

    def run(feeds: Arrays) -> Arrays:
        result = machine["main"](*(tvm.runtime.tensor(feeds[name]) for name in inputs))
        values = [result] if hasattr(result, "numpy") else list(result)
        return {name: value.numpy() for name, value in zip(outputs, values, strict=True)}

    return run


def main(folder: Path, case: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    call = {"onnx": onnx, "tflite": tflite, "tvm": tvm}[manifest["target"]](
        folder / manifest["files"][0], manifest["io"]
    )
    worst = 0.0
    with np.load(case, allow_pickle=False) as golden:
        entries = {role: [e for e in manifest["io"] if e["role"] == role] for role in ("input", "output")}
        feeds = {e["name"]: _laid_out(golden[f"in:{e['source']}"], e) for e in entries["input"]}
        results = call(feeds)
        for entry in entries["output"]:
            wanted = _laid_out(golden[f"out:{entry['source']}"], entry)
            assert results[entry["name"]].shape == wanted.shape
            worst = max(worst, float(np.abs(results[entry["name"]] - wanted).max()))
    print(worst)


def _laid_out(array: Any, entry: dict[str, Any]) -> Any:
    if entry["layout"] != "same":
        array = np.transpose(array, [int(axis) for axis in entry["layout"].split(",")])
    return np.ascontiguousarray(array.astype(entry["dtype"]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

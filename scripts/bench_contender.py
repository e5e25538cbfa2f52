"""One side of a comparison in a process of its own: loads what it is told, and runs it when the parent says so.

    PYTHON bench_contender.py '{"what": "onnx", "file": "model.onnx", "feeds": "feeds.npz", "threads": 1}'

Toolkits cannot meet in one process, and what waits for its turn must not work, so the parent writes a number of runs to
standard input and gets that many times, in seconds, as a line of JSON. At the end it gets the peak memory in MiB.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Call = Callable[[], Any]


def onnx_call(said: dict[str, Any], feeds: dict[str, Any]) -> Call:
    """A file, by onnxruntime with its defaults."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = said["threads"]
    session = ort.InferenceSession(said["file"], options, providers=["CPUExecutionProvider"])
    named = dict(zip([value.name for value in session.get_inputs()], feeds.values(), strict=True))
    return lambda: session.run(None, named)


def tflite_call(said: dict[str, Any], feeds: dict[str, Any]) -> Call:
    """A file, by the stock interpreter with its default delegate; axes are moved where the file wants them so."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=said["file"], num_threads=said["threads"])
    interpreter.allocate_tensors()
    pairs = []
    for detail, value in zip(interpreter.get_input_details(), feeds.values(), strict=True):
        same = tuple(detail["shape"]) == value.shape
        # onnx2tf's own files are channels-last.
        pairs.append((detail["index"], value if same else value.transpose(0, 2, 3, 1).copy()))
    outputs = [detail["index"] for detail in interpreter.get_output_details()]

    def call() -> list[Any]:
        for index, value in pairs:
            interpreter.set_tensor(index, value)
        interpreter.invoke()
        return [interpreter.get_tensor(index) for index in outputs]

    return call


def tvm_call(said: dict[str, Any], feeds: dict[str, Any]) -> Call:
    """A shared library, by Relax's virtual machine; the threads stand in TVM_NUM_THREADS."""
    import tvm
    from tvm import relax

    main = relax.VirtualMachine(tvm.runtime.load_module(said["file"]), tvm.cpu())["main"]

    def call() -> list[Any]:
        result = main(*(tvm.runtime.tensor(value) for value in feeds.values()))
        values = [result] if hasattr(result, "numpy") else list(result)
        return [value.numpy() for value in values]

    return call


def torch_call(said: dict[str, Any], feeds: dict[str, Any]) -> Call:
    """The module itself, or compiled by torch.compile with its defaults."""
    import bench_nets
    import torch

    torch.set_num_threads(said["threads"])
    net = getattr(bench_nets, said["file"])()
    values = [torch.from_numpy(value) for value in feeds.values()]
    if said["what"] == "compile":
        net = torch.compile(net)

    def call() -> Any:
        with torch.inference_mode():
            return net(*values).numpy()

    return call


CALLS = {"onnx": onnx_call, "tflite": tflite_call, "tvm": tvm_call, "eager": torch_call, "compile": torch_call}


def main() -> None:
    """Serve until standard input ends."""
    said = json.loads(sys.argv[1])
    os.environ["TVM_NUM_THREADS"] = str(said["threads"])
    import numpy as np

    with np.load(said["feeds"]) as file:
        feeds = {name: file[name] for name in file.files}
    start = time.perf_counter()
    call = CALLS[said["what"]](said, feeds)
    result = call()
    first = np.asarray(result[0] if isinstance(result, list) else result).reshape(-1)[:8]
    _say({"ready": time.perf_counter() - start, "first": [float(value) for value in first]})
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        _say({"times": times})
    _say({"peak_memory_mib": _peak_memory_mib()})


def _peak_memory_mib() -> float:
    """Of this program; the figure of getrusage is never below that of the process which started it."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def _say(value: dict[str, Any]) -> None:
    print("=" + json.dumps(value), flush=True)


if __name__ == "__main__":
    main()

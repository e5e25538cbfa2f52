"""SIMULATED: a Python whose onnxruntime says that it has a GPU. All runs on the CPU; where operators ran is made up.

As a program it stands before a worker: ``python simulated_gpu.py OPERATORS FLAGS… BOOTSTRAP JOB``, where OPERATORS are
those that are to be named as run by the CPU, with commas between them.
"""

from __future__ import annotations

import ctypes
import json
import runpy
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

CPU = "CPUExecutionProvider"


class _Driver:
    """NVIDIA's driver, which finds a GPU."""

    def cuInit(self, flags: int) -> int:
        return 0


def simulated_session(real: Any, on_cpu: Collection[str]) -> Any:
    """A class that opens a graph on the CPU and says that it was the provider asked for."""

    class Session(real):
        def __init__(self, file: Any, options: Any, providers: list[Any], **more: Any) -> None:
            self._said = [one if isinstance(one, str) else one[0] for one in providers]
            super().__init__(file, options, providers=[CPU])

        def get_providers(self) -> list[str]:
            return self._said

        def end_profiling(self) -> str:
            file = Path(super().end_profiling())
            events = json.loads(file.read_text(encoding="utf-8"))
            for event in events:
                if event["args"].get("provider") and event["args"]["op_name"] not in on_cpu:
                    event["args"]["provider"] = self._said[0]
            file.write_text(json.dumps(events), encoding="utf-8")
            return str(file)

    return Session


def main(operators: str, *words: str) -> None:
    import onnxruntime

    load = ctypes.CDLL
    ctypes.CDLL = lambda name, *rest, **more: _Driver() if "cuda" in str(name) else load(name, *rest, **more)  # type: ignore[assignment,misc]
    onnxruntime.get_available_providers = lambda: ["TensorrtExecutionProvider", "CUDAExecutionProvider", CPU]
    onnxruntime.InferenceSession = simulated_session(onnxruntime.InferenceSession, operators.split(","))
    sys.argv = list(words[-2:])
    runpy.run_path(words[-2], run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A loaded engine that takes and gives numpy arrays. NOT YET RUN ON A GPU."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from .logs import make_log, reason_in

Array = np.ndarray[Any, Any]
_WARM_UP = 10
_PARTS = ("host_to_device_ms", "compute_ms", "device_to_host_ms")


class Engine:
    """A deserialised engine with its execution context and buffers."""

    def __init__(self, trt: Any, plan: bytes, memory: Any) -> None:
        """Load ``plan``.

        Args:
            trt: the module ``tensorrt``.
            plan: the serialised engine.
            memory: what :func:`.memory.open_memory` gives.

        Raises:
            RuntimeError: TensorRT refuses it, with TensorRT's reason.
        """
        self._trt, self._memory = trt, memory
        self._before = memory.used()
        self._log = make_log(trt)
        self._runtime = trt.Runtime(self._log)
        self._engine = self._runtime.deserialize_cuda_engine(plan)
        if self._engine is None:
            raise RuntimeError(f"TensorRT cannot load the engine: {reason_in(self._log.errors) or 'no reason given'}")
        self._context = self._engine.create_execution_context()
        if self._context is None:
            raise RuntimeError(f"TensorRT cannot run the engine: {reason_in(self._log.errors) or 'no reason given'}")
        names = [self._engine.get_tensor_name(index) for index in range(self._engine.num_io_tensors)]
        self.inputs = [n for n in names if self._engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT]
        self.outputs = [n for n in names if n not in self.inputs]
        self._buffers: dict[str, tuple[int, Any]] = {}

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Copy in, execute, copy out; raises ``RuntimeError`` where TensorRT refuses the shapes or fails."""
        return self._run(feeds)[0]

    def measure(self, feeds: dict[str, Array], runs: int) -> list[dict[str, float]]:
        """Milliseconds of the parts of each of ``runs`` runs, and ``total_ms`` by the host's clock."""
        for _ in range(_WARM_UP):
            self._run(feeds)
        return [self._run(feeds)[1] for _ in range(runs)]

    def parts(self, feeds: dict[str, Array], runs: int = 50) -> dict[str, float]:
        """Medians of the parts, and ``memory_mib`` of the GPU that the engine takes with its buffers."""
        rows = self.measure(feeds, runs)
        medians = {key: statistics.median(row[key] for row in rows) for key in _PARTS}
        return medians | {"memory_mib": self.memory_mib()}

    def memory_mib(self) -> float:
        """What the GPU's memory grew by since before the engine was loaded; other programs on it count too."""
        return float(max(0, self._memory.used() - self._before) / 2**20)

    def inspect(self) -> str:
        """What the engine inspector says, as JSON."""
        inspector = self._engine.create_engine_inspector()
        return str(inspector.get_engine_information(self._trt.LayerInformationFormat.JSON))

    def _run(self, feeds: dict[str, Array]) -> tuple[dict[str, Array], dict[str, float]]:
        start = time.perf_counter()
        values = {name: self._bind_input(name, feeds[name]) for name in self.inputs}
        lacking = self._context.infer_shapes()
        if lacking:
            raise RuntimeError(f"TensorRT cannot tell the output shapes; it lacks {', '.join(map(str, lacking))}")
        results = {name: self._bind_output(name) for name in self.outputs}
        # Between the marks lies what the stream does and nothing that the host has to think about.
        marks = [self._memory.mark()]
        for name, value in values.items():
            if not self._on_host(name):
                self._memory.send(value, self._buffers[name][1])
        marks.append(self._memory.mark())
        if not self._context.execute_async_v3(self._memory.stream):
            raise RuntimeError(f"TensorRT does not run: {reason_in(self._log.errors) or 'no reason given'}")
        marks.append(self._memory.mark())
        for name, value in results.items():
            if not self._on_host(name):
                self._memory.fetch(self._buffers[name][1], value)
        marks.append(self._memory.mark())
        self._memory.wait()
        times = zip(_PARTS, marks, marks[1:], strict=False)
        spans = {key: self._memory.between(before, after) for key, before, after in times}
        return results, spans | {"total_ms": (time.perf_counter() - start) * 1e3}

    def _bind_input(self, name: str, value: Array) -> Array:
        wanted = self._dtype(name)
        if value.dtype != wanted:
            raise RuntimeError(f"input {name} is {value.dtype}, and the engine takes {wanted}")
        value = np.require(value, requirements=["C"])  # not ascontiguousarray, which gives a scalar an axis
        if not self._context.set_input_shape(name, tuple(value.shape)):
            raise RuntimeError(
                f"input {name} has the shape {list(value.shape)}, which no profile of the engine holds: "
                f"{reason_in(self._log.errors) or 'no reason given'}"
            )
        self._bind(name, value)
        return value

    def _bind_output(self, name: str) -> Array:
        shape = tuple(self._context.get_tensor_shape(name))
        if any(size < 0 for size in shape):
            raise RuntimeError(f"the size of output {name} depends on the data ({list(shape)}), which is not supported")
        value = np.empty(shape, self._dtype(name))
        self._bind(name, value)
        return value

    def _bind(self, name: str, value: Array) -> None:
        on_host = self._on_host(name)
        address = value.ctypes.data if on_host else self._memory.address(self._buffer(name, value.nbytes))
        if not self._context.set_tensor_address(name, address):
            raise RuntimeError(f"TensorRT does not take the memory of {name}: {reason_in(self._log.errors)}")

    def _on_host(self, name: str) -> bool:
        """Tensors that hold shapes are read and written by the host."""
        return bool(self._engine.get_tensor_location(name) == self._trt.TensorLocation.HOST)

    def _dtype(self, name: str) -> Any:
        return np.dtype(self._trt.nptype(self._engine.get_tensor_dtype(name)))

    def _buffer(self, name: str, size: int) -> Any:
        """The buffer of a tensor, made anew where a larger one is needed."""
        if name not in self._buffers or self._buffers[name][0] < size:
            self._buffers[name] = (size, self._memory.buffer(size))
        return self._buffers[name][1]

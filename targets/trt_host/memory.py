"""Memory of the GPU, by torch or by cuda-python: whichever is there. NOT YET RUN ON A GPU.

Both give the same few operations on one stream; an array goes over as its bytes, so no dtype has to be known.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
#: TensorRT takes no null pointer, not even for a tensor without elements.
_LEAST_BYTES = 256


def open_memory() -> Any:
    """The memory of the current GPU; raises ``RuntimeError`` where neither package is there."""
    for kind in (TorchMemory, CudaPythonMemory):
        try:
            return kind()
        except ImportError:
            continue
    raise RuntimeError(
        "neither torch with CUDA nor cuda-python is installed here; get one with `pip install cuda-python`"
    )


class TorchMemory:
    """By torch's CUDA tensors."""

    def __init__(self) -> None:
        """Make a stream; raises ``ImportError`` where torch is not there or has no CUDA."""
        import torch

        if not torch.cuda.is_available():
            raise ImportError("this torch has no CUDA")
        self._torch = torch
        self._stream = torch.cuda.Stream()
        self.stream = int(self._stream.cuda_stream)

    def buffer(self, size: int) -> Any:
        """``size`` bytes on the GPU."""
        return self._torch.empty(max(size, _LEAST_BYTES), dtype=self._torch.uint8, device="cuda")

    def address(self, buffer: Any) -> int:
        """Of a buffer, on the GPU."""
        return int(buffer.data_ptr())

    def send(self, array: Array, buffer: Any) -> None:
        """Copy a C-contiguous array to the GPU."""
        with self._torch.cuda.stream(self._stream):
            data = self._torch.from_numpy(array.reshape(-1).view(np.uint8))
            buffer[: array.nbytes].copy_(data, non_blocking=True)

    def fetch(self, buffer: Any, array: Array) -> None:
        """Copy back into a C-contiguous array; it is there after :meth:`wait`."""
        with self._torch.cuda.stream(self._stream):
            self._torch.from_numpy(array.reshape(-1).view(np.uint8)).copy_(buffer[: array.nbytes], non_blocking=True)

    def mark(self) -> Any:
        """A moment in the stream."""
        event = self._torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event

    def between(self, start: Any, end: Any) -> float:
        """Milliseconds between two moments that have passed."""
        return float(start.elapsed_time(end))

    def wait(self) -> None:
        """Until the stream is empty; raises what went wrong in it."""
        self._stream.synchronize()

    def used(self) -> int:
        """Bytes of the GPU's memory that are taken, by whomever."""
        free, total = self._torch.cuda.mem_get_info()
        return int(total - free)


class CudaPythonMemory:
    """By the CUDA runtime of cuda-python, for hosts without torch."""

    def __init__(self) -> None:
        """Make a stream; raises ``ImportError`` where cuda-python is not there."""
        from cuda.bindings import runtime

        self._cuda = runtime
        self._handle = self._done(runtime.cudaStreamCreate())
        self.stream = int(self._handle)

    def _done(self, result: Any) -> Any:
        """Every call gives its error first."""
        error, *values = result
        if error != self._cuda.cudaError_t.cudaSuccess:
            raise RuntimeError(f"CUDA says {error.name}")
        return values[0] if len(values) == 1 else values

    def buffer(self, size: int) -> Any:
        """``size`` bytes on the GPU, which stay until the process ends."""
        return self._done(self._cuda.cudaMalloc(max(size, _LEAST_BYTES)))

    def address(self, buffer: Any) -> int:
        """Of a buffer, on the GPU."""
        return int(buffer)

    def send(self, array: Array, buffer: Any) -> None:
        """Copy a C-contiguous array to the GPU."""
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyHostToDevice
        self._done(self._cuda.cudaMemcpyAsync(buffer, array.ctypes.data, array.nbytes, kind, self._handle))

    def fetch(self, buffer: Any, array: Array) -> None:
        """Copy back into a C-contiguous array; it is there after :meth:`wait`."""
        kind = self._cuda.cudaMemcpyKind.cudaMemcpyDeviceToHost
        self._done(self._cuda.cudaMemcpyAsync(array.ctypes.data, buffer, array.nbytes, kind, self._handle))

    def mark(self) -> Any:
        """A moment in the stream."""
        event = self._done(self._cuda.cudaEventCreate())
        self._done(self._cuda.cudaEventRecord(event, self._handle))
        return event

    def between(self, start: Any, end: Any) -> float:
        """Milliseconds between two moments that have passed."""
        return float(self._done(self._cuda.cudaEventElapsedTime(start, end)))

    def wait(self) -> None:
        """Until the stream is empty; raises what went wrong in it."""
        self._done(self._cuda.cudaStreamSynchronize(self._handle))

    def used(self) -> int:
        """Bytes of the GPU's memory that are taken, by whomever."""
        free, total = self._done(self._cuda.cudaMemGetInfo())
        return int(total - free)

"""The calls of cuda-python that are used, on the host's own memory. See README.md: this is no GPU."""

from __future__ import annotations

import ctypes
import enum
import time
from typing import Any

_held: dict[int, Any] = {}


class cudaError_t(enum.Enum):
    cudaSuccess = 0
    cudaErrorInvalidValue = 1


class cudaMemcpyKind(enum.Enum):
    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2


_OK = cudaError_t.cudaSuccess


def cudaStreamCreate() -> tuple[cudaError_t, int]:
    return _OK, 7


def cudaMalloc(size: int) -> tuple[cudaError_t, int]:
    buffer = ctypes.create_string_buffer(size)
    _held[ctypes.addressof(buffer)] = buffer
    return _OK, ctypes.addressof(buffer)


def cudaMemcpyAsync(to: int, source: int, size: int, kind: cudaMemcpyKind, stream: int) -> tuple[cudaError_t]:
    device = to if kind is cudaMemcpyKind.cudaMemcpyHostToDevice else source
    if stream != 7 or device not in _held or size > len(_held[device]):
        return (cudaError_t.cudaErrorInvalidValue,)
    ctypes.memmove(to, source, size)
    return (_OK,)


def cudaEventCreate() -> tuple[cudaError_t, list[float]]:
    return _OK, []


def cudaEventRecord(event: list[float], stream: int) -> tuple[cudaError_t]:
    event[:] = [time.perf_counter()]
    return (_OK if stream == 7 else cudaError_t.cudaErrorInvalidValue,)


def cudaEventElapsedTime(start: list[float], end: list[float]) -> tuple[cudaError_t, float]:
    return _OK, (end[0] - start[0]) * 1e3


def cudaStreamSynchronize(stream: int) -> tuple[cudaError_t]:
    return (_OK if stream == 7 else cudaError_t.cudaErrorInvalidValue,)


def cudaMemGetInfo() -> tuple[cudaError_t, int, int]:
    taken = sum(len(buffer) for buffer in _held.values()) + (1 << 20)
    return _OK, (8 << 30) - taken, 8 << 30

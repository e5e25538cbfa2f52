"""The GPU that is here, asked of the driver's own libraries: TensorRT itself crashes where there is none."""

from __future__ import annotations

import ctypes
import ctypes.util
import re
from pathlib import Path
from typing import Any

#: ``CUdevice_attribute``: the parts of the compute capability.
_MAJOR, _MINOR = 75, 76
_KERNEL_MODULE = Path("/proc/driver/nvidia/version")


class NoGpu(RuntimeError):
    """There is no GPU that can be used; the text says why."""


def gpu_here(tensorrt: str) -> dict[str, Any]:
    """The first GPU that the driver shows (``CUDA_VISIBLE_DEVICES`` chooses).

    Args:
        tensorrt: version of TensorRT, which belongs to the identity of an engine.

    Returns:
        ``name``, ``compute_capability`` (``8.6``), ``driver`` (empty where it cannot be read), ``cuda`` (the newest
        version that the driver serves), ``tensorrt`` and ``memory_mib``.

    Raises:
        NoGpu: there is no driver, or it finds no GPU.
    """
    cuda = _driver()
    device = ctypes.c_int()
    _call(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    name = ctypes.create_string_buffer(256)
    _call(cuda.cuDeviceGetName(name, len(name), device), "cuDeviceGetName")
    memory = ctypes.c_size_t()
    _call(cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device), "cuDeviceTotalMem")
    version = ctypes.c_int()
    _call(cuda.cuDriverGetVersion(ctypes.byref(version)), "cuDriverGetVersion")
    return {
        "name": name.value.decode(errors="replace"),
        "compute_capability": f"{_attribute(cuda, _MAJOR, device)}.{_attribute(cuda, _MINOR, device)}",
        "driver": _driver_version(),
        "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}",
        "tensorrt": tensorrt,
        "memory_mib": memory.value // 2**20,
    }


def why_no_gpu() -> str:
    """Why no engine can run here; empty where there is a GPU."""
    try:
        _driver()
    except NoGpu as error:
        return str(error)
    return ""


def _driver() -> Any:
    library = ctypes.util.find_library("cuda") or "libcuda.so.1"
    try:
        cuda = ctypes.CDLL(library)
    except OSError:
        raise NoGpu("this host has no NVIDIA driver (libcuda.so.1 is not there)") from None
    code = cuda.cuInit(0)
    if code != 0:
        raise NoGpu(f"the NVIDIA driver finds no usable GPU (cuInit gave {code})")
    return cuda


def _call(code: int, what: str) -> None:
    if code != 0:
        raise NoGpu(f"the NVIDIA driver does not describe its GPU ({what} gave {code})")


def _attribute(cuda: Any, which: int, device: ctypes.c_int) -> int:
    value = ctypes.c_int()
    _call(cuda.cuDeviceGetAttribute(ctypes.byref(value), which, device), "cuDeviceGetAttribute")
    return value.value


def _driver_version() -> str:
    """From the management library, else from the kernel module."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        text = ctypes.create_string_buffer(96)
        if nvml.nvmlInit_v2() == 0 and nvml.nvmlSystemGetDriverVersion(text, len(text)) == 0:
            return text.value.decode(errors="replace")
    except (OSError, AttributeError):
        pass
    try:
        match = re.search(r"Kernel Module\D*([\d.]+)", _KERNEL_MODULE.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    return match[1] if match else ""


def mismatch(built: dict[str, Any], here: dict[str, Any], hardware: str = "none", flags: tuple[str, ...] = ()) -> str:
    """Why an engine built on one GPU is not to be loaded on another; empty where it is.

    Args:
        built: what :func:`gpu_here` gave where the engine was built.
        here: what it gives now.
        hardware: the level of hardware compatibility that the engine was built with.
        flags: its builder flags; ``version-compatible`` lets any newer TensorRT of the same major version load it.

    Returns:
        One sentence. TensorRT itself notices some of this only while it deserialises, or not at all.
    """
    wrong = [*_software(built, here, flags), *_hardware(built, here, hardware)]
    if not wrong:
        return ""
    return f"this engine was not built for this host: {'; '.join(wrong)}; build it here from its recipe"


def _software(built: dict[str, Any], here: dict[str, Any], flags: tuple[str, ...]) -> list[str]:
    wrong = []
    mine, theirs = _numbers(here["tensorrt"]), _numbers(built["tensorrt"])
    fits = mine[:1] == theirs[:1] and mine >= theirs if "version-compatible" in flags else mine == theirs
    if not fits or not mine:
        wrong.append(f"TensorRT {built['tensorrt']} made it, and {here['tensorrt']} is here")
    for key, name in (("driver", "the NVIDIA driver"), ("cuda", "the CUDA version of the driver")):
        if _numbers(here[key]) < _numbers(built[key]):
            wrong.append(f"{name} is {here[key] or 'not known'}, older than {built[key]}")
    return wrong


def _hardware(built: dict[str, Any], here: dict[str, Any], hardware: str) -> list[str]:
    mine, theirs = here["compute_capability"], built["compute_capability"]
    if hardware == "ampere-plus":
        return [] if _numbers(mine) >= (8, 0) else [f"it is for compute capability 8.0 and newer, not {mine}"]
    if mine != theirs:
        return [f"it is for compute capability {theirs}, not {mine}"]
    if hardware == "none" and here["name"] != built["name"]:
        return [f"it is for {built['name']}, not {here['name']}"]
    return []


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))

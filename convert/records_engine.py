"""Records of what runs on a GPU: engines, the GPU they are bound to, and where operators were placed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class EngineOptions:
    """What the user asked of engines.

    Attributes:
        workspace: most bytes of scratch memory of one layer; None for the whole memory of the GPU.
        hardware: which other GPUs an engine of trt is to run on: ``none``, ``ampere-plus`` or
            ``same-compute-capability``.
        flags: ``refit``, ``strip-plan``, ``version-compatible``.
        gpus: compute capabilities that engines of trt-rtx are for, as ``sm86``.
    """

    workspace: int | None = None
    hardware: str = "none"
    flags: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gate:
    """What a toolchain without a GPU says beforehand of a graph: a hint, never a pass.

    Attributes:
        verdict: ``passed``, ``failed``, ``inconclusive`` or ``not run``.
        tool: name and version of what was asked; empty where nothing was.
        reason: why, in words.
        node, operator: what it refuses, where it named one.
    """

    verdict: str
    tool: str
    reason: str
    node: str = ""
    operator: str = ""


@dataclass(frozen=True)
class Gpu:
    """The GPU that an engine was built and run on, with the software that counts.

    Attributes:
        compute_capability: as ``8.6``.
        driver: version of the NVIDIA driver, as ``570.86.15``; empty where it cannot be read.
        cuda: the newest CUDA version that the driver serves, as ``12.8``.
        tensorrt: version of TensorRT.
        memory_mib: of the GPU.
    """

    name: str
    compute_capability: str
    driver: str
    cuda: str
    tensorrt: str
    memory_mib: int


@dataclass(frozen=True)
class EngineSummary:
    """What an engine consists of, as TensorRT's engine inspector tells it.

    Attributes:
        layers: how many there are after fusion.
        precisions: format and type of an output, as the inspector writes it -> number of layers.
        tactics: name of a kernel -> number of layers; only those that are named.
    """

    layers: int
    precisions: dict[str, int] = field(default_factory=dict)
    tactics: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuTimes:
    """Median milliseconds of the parts of one run on a GPU, and the GPU memory it takes.

    Attributes:
        memory_mib: what the engine, its context and its buffers take of the GPU's memory.
    """

    host_to_device_ms: float
    compute_ms: float
    device_to_host_ms: float
    memory_mib: float


@dataclass(frozen=True)
class Placement:
    """Where onnxruntime really ran the operators of a graph.

    Attributes:
        asked: the execution provider asked for, as onnxruntime calls it.
        ran: the first provider of the session, read back from it.
        operators: provider -> number of operators that it ran.
        cpu_share: share of the operators that the CPU ran, 0 to 1.
    """

    asked: str
    ran: str
    operators: dict[str, int]
    cpu_share: float

"""How an engine is built, besides what its graph says."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

#: Name here -> ``HardwareCompatibilityLevel``.
HARDWARE = {
    "none": "NONE",
    "ampere-plus": "AMPERE_PLUS",
    "same-compute-capability": "SAME_COMPUTE_CAPABILITY",
}
#: Name here -> ``BuilderFlag``.
FLAGS = {
    "refit": "REFIT",
    "strip-plan": "STRIP_PLAN",
    "version-compatible": "VERSION_COMPATIBLE",
}


@dataclass(frozen=True)
class EngineSettings:
    """What the builder is told.

    Attributes:
        workspace: most bytes of scratch memory that a layer may use; None for the whole memory of the GPU.
        hardware: a key of ``HARDWARE``: which other GPUs the engine is to run on. TensorRT only.
        flags: keys of ``FLAGS``.
        capabilities: compute capabilities to build for, as ``SM86``; TensorRT for RTX only, which needs no GPU then.
        timing_cache: folder that keeps what the builder has measured; empty for none. TensorRT only.
    """

    workspace: int | None = None
    hardware: str = "none"
    flags: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    timing_cache: str = ""


def settings_from(plain: dict[str, Any]) -> EngineSettings:
    """The settings that stand in a recipe; what it does not name keeps its default."""
    known = {one.name for one in fields(EngineSettings)}
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}
    return EngineSettings(**{name: value for name, value in given.items() if name in known})

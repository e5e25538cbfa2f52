"""The options of engines: which of them a target can use is known before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from convert.errors import InputError
from convert.options import parse_memory
from convert.records_engine import EngineOptions
from convert.targets.trt_host.settings import FLAGS, HARDWARE
from convert.targets.trt_rtx import CAPABILITIES

_RTX, _TRT = "trt-rtx", "trt"


def settle_engine(given: dict[str, Any], targets: Sequence[str]) -> EngineOptions:
    """Read ``--gpu``, ``--workspace``, ``--hardware-compatible`` and ``--engine-flag``.

    Raises:
        InputError: a value is not known, or no target that was asked for can use it.
    """
    hardware = given.get("hardware_compatible") or "none"
    asked = EngineOptions(
        workspace=None if given.get("workspace") is None else parse_memory(given["workspace"], "--workspace"),
        hardware=_known("--hardware-compatible", hardware, HARDWARE),
        flags=tuple(dict.fromkeys(_known("--engine-flag", name, FLAGS) for name in _names(given.get("engine_flags")))),
        gpus=_gpus(given.get("gpu")),
    )
    _require_target("--gpu", bool(asked.gpus), _RTX, targets)
    for option, used in (
        ("--workspace", asked.workspace is not None),
        ("--hardware-compatible", asked.hardware != "none"),
        ("--engine-flag", bool(asked.flags)),
    ):
        _require_target(option, used, _TRT, targets)
    return asked


def _names(texts: Any) -> list[str]:
    """Values that may be repeated and may have commas between them."""
    return [part.strip() for text in texts or () for part in text.split(",") if part.strip()]


def _known(option: str, value: str, known: Any) -> str:
    if value not in known:
        raise InputError(f"{option} {value!r} is not known; choose from {', '.join(known)}")
    return value


def _gpus(texts: Any) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.lower() for name in _names(texts)))
    if texts and not names:
        raise InputError(f"--gpu names no compute capability; choose from {', '.join(CAPABILITIES)}")
    for name in names:
        if name not in CAPABILITIES:
            raise InputError(
                f"--gpu {name!r} is not served by TensorRT for RTX, which builds for {', '.join(CAPABILITIES)}; for "
                "other GPUs, such as H100 (sm90) and B200 (sm100), use the target trt"
            )
    return names


def _require_target(option: str, used: bool, target: str, targets: Sequence[str]) -> None:
    if not used or target in targets:
        return
    why = ", which TensorRT for RTX cannot do without a GPU" if target == _TRT and _RTX in targets else ""
    raise InputError(
        f"{option} is for the target {target}{why}, and --target is {', '.join(targets)}; add {target}, or leave "
        f"{option} out"
    )

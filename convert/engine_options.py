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
#: TensorRT takes a ``size_t``; half of that is beyond every GPU, and fits every reader of the recipe's JSON.
MOST_WORKSPACE = 2**63 - 1
_MOST_SHOWN = "8388607T"


def settle_engine(given: dict[str, Any], targets: Sequence[str]) -> EngineOptions:
    """Read ``--gpu``, ``--workspace``, ``--hardware-compatible`` and ``--engine-flag``.

    Raises:
        InputError: a value is not known, or no target that was asked for can use it.
    """
    hardware = given.get("hardware_compatible") or "none"
    asked = EngineOptions(
        workspace=_workspace(given.get("workspace")),
        hardware=_known("--hardware-compatible", hardware, HARDWARE),
        flags=_flags(given.get("engine_flags")),
        gpus=_gpus(given.get("gpu")),
    )
    _require_target("--gpu", bool(asked.gpus), (_RTX,), targets)
    _require_target("--workspace", asked.workspace is not None, (_TRT, _RTX), targets)
    for option, used in (("--hardware-compatible", asked.hardware != "none"), ("--engine-flag", bool(asked.flags))):
        _require_target(option, used, (_TRT,), targets)
        if used and _RTX in targets:
            raise InputError(
                f"{option} is for the target {_TRT}, and TensorRT for RTX cannot do it without a GPU; leave {_RTX} out "
                f"and make it by another run, or leave {option} out"
            )
    return asked


def _workspace(text: str | None) -> int | None:
    if text is None:
        return None
    size = parse_memory(text, "--workspace")
    if size > MOST_WORKSPACE:
        raise InputError(f"--workspace {text!r} is more than TensorRT can be told; give at most {_MOST_SHOWN}")
    return size


def _names(texts: Any) -> list[str]:
    """Values that may be repeated and may have commas between them."""
    return [part.strip() for text in texts or () for part in text.split(",") if part.strip()]


def _flags(texts: Any) -> tuple[str, ...]:
    names = _names(texts)
    if texts and not names:
        raise InputError(f"--engine-flag names no flag; choose from {', '.join(FLAGS)}")
    return tuple(dict.fromkeys(_known("--engine-flag", name, FLAGS) for name in names))


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


def _require_target(option: str, used: bool, users: Sequence[str], targets: Sequence[str]) -> None:
    if not used or set(users) & set(targets):
        return
    why = ", and TensorRT for RTX cannot do it without a GPU" if _RTX in targets else ""
    raise InputError(
        f"{option} is for the target {' or '.join(users)}{why}, and --target is {', '.join(targets)}; add "
        f"{' or '.join(users)}{f' and leave {_RTX} out' if why else ''}, or leave {option} out"
    )

"""What onnxruntime runs on: the words of ``--provider``, and whether an artifact really ran there.

A session that cannot use a GPU goes on with the CPU and says nothing that a program would notice, so what was asked for
is never taken for what ran.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from convert.errors import InputError
from convert.platforms import host_platform
from convert.records_engine import Placement

CPU = "CPUExecutionProvider"
_CUDA = "CUDAExecutionProvider"
#: The word of the command line -> onnxruntime's providers, in the order in which they may take operators.
PROVIDERS: dict[str, tuple[str, ...]] = {
    "cpu": (CPU,),
    "cuda": (_CUDA, CPU),
    "tensorrt": ("TensorrtExecutionProvider", _CUDA, CPU),
}
TARGET = "onnx"


def parse_share(text: str) -> float:
    """Read ``--max-cpu-ops``: a percentage, as ``0%`` or ``2.5%``; gives the share, 0 to 1.

    A number without the sign is refused, since 1 could be all or a hundredth.

    Raises:
        InputError: the text is no percentage from 0% to 100%.
    """
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)\s*%", text.strip())
    if match is None or float(match[1]) > 100:
        raise InputError(f"--max-cpu-ops {text!r} is no percentage; write 0% to 100%, with the sign, as in 2.5%")
    return float(match[1]) / 100


def settle_provider(
    given: Mapping[str, Any], targets: Sequence[str], platforms: Sequence[str], devices: Sequence[Any]
) -> dict[str, Any]:
    """``provider`` and ``max_cpu_ops`` of the options.

    Raises:
        InputError: one has no meaning with the rest of what was asked.
    """
    provider, share = given["provider"], given["max_cpu_ops"]
    most = None if share is None else parse_share(share)
    if provider == "cpu":
        if most is not None:
            raise InputError(
                "--max-cpu-ops is about operators that do not run on a GPU, and --provider is cpu; "
                "give --provider cuda or tensorrt, or leave --max-cpu-ops out"
            )
        return {}
    if TARGET not in targets:
        raise InputError(
            f"--provider {provider} is about onnx, and --target is {', '.join(targets)}; "
            "add onnx, or leave --provider out"
        )
    elsewhere = [device.name for device in devices] or [name for name in platforms if name != host_platform()]
    if elsewhere:
        option = "--device" if devices else "--platform"
        raise InputError(
            f"--provider {provider} is for a GPU of this host, and {option} asks for {', '.join(elsewhere)}; "
            "leave one of the two out"
        )
    return {"provider": provider, "max_cpu_ops": most}


def misplaced(provider: str, placement: Placement | None, most: float | None) -> str:
    """Why an artifact cannot be said to run on ``provider``; empty where it can.

    Args:
        provider: a key of :data:`PROVIDERS`.
        placement: what the session that was checked gave.
        most: the largest share of operators that may run on the CPU; None for any.
    """
    if provider == "cpu":
        return ""
    asked = PROVIDERS[provider][0]
    if placement is None or placement.asked != asked:
        return f"nothing says where the operators ran, and {asked} was asked for"
    if placement.ran != asked or not placement.operators.get(asked):
        others = ", ".join(name for name, count in placement.operators.items() if count) or placement.ran
        return f"{asked} was asked for, and no operator ran on it: all ran on {others}"
    if most is not None and not placement.cpu_share <= most:
        count, total = placement.operators.get(CPU, 0), sum(placement.operators.values())
        return (
            f"{count} of {total} operators ({placement.cpu_share:.1%}) ran on the CPU, and --max-cpu-ops allows "
            f"{most * 100:g}%"
        )
    return ""

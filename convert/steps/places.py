"""Where the artifacts of each platform of a run are proven, settled before anything is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from convert.context import Context
from convert.emulation import find_emulation
from convert.platforms import EMULATED, PLATFORMS, cpu_of, host_platform
from convert.records import Device, Proven
from convert.toolchains import install_command

TOOLCHAIN = "arm64-emulation"


@dataclass(frozen=True)
class Where:
    """Where artifacts of one platform are proven.

    Attributes:
        args: what a worker needs to go there; None for this host, natively.
        proven: what the record says of it; None for this host, natively.
        nowhere: why they cannot be proven from here; empty where they can.
        unproven: what stays open although the checks pass; empty for nothing.
    """

    platform: str
    args: dict[str, Any] | None = None
    proven: Proven | None = None
    nowhere: str = ""
    unproven: str = ""

    @property
    def timed(self) -> bool:
        """Whether times mean anything there; those under emulation do not."""
        return self.proven is None or self.proven.how == "device"

    @property
    def note(self) -> str:
        """What the report says of the proof; empty for this host."""
        if self.proven is None:
            return ""
        if self.proven.how == "emulated":
            return f"{EMULATED} ({self.proven.place})"
        return f"proven on {self.proven.place}{_described(self.proven.device)}"


HERE = Where(host_platform())


def _described(device: Device | None) -> str:
    if device is None:
        return ""
    warmth = "" if device.temperature is None else f"{device.temperature:.0f} °C"
    governor = f"governor {device.governor}" if device.governor else ""
    known = ", ".join(part for part in (device.cpu, governor, warmth) if part)
    return f" ({known})" if known else ""


def where(context: Context, platform: str) -> Where:
    """Where artifacts of ``platform`` are proven: on a device given for it, else on this host, else emulated."""
    known = PLATFORMS.get(platform)
    unproven = known.unproven if known is not None else ""
    for device in context.options.devices:
        if device.platform == platform:
            args = {"kind": "device", "name": device.name, "platform": platform}
            return Where(platform, args, Proven("device", device.name, device), unproven=unproven)
    if platform == host_platform():
        return Where(platform)
    if known is None or not known.emulated:
        why = known.no_runtime if known is not None else ""
        why = why or f"{platform} is not emulated here; convert on such a machine, or give one with --device"
        return Where(platform, nowhere=why)
    if find_emulation() is None:
        why = f"the toolchain {TOOLCHAIN} is not installed, which runs its artifacts; get it with "
        return Where(platform, nowhere=f"{why}`{install_command(TOOLCHAIN)}`, or give a device with --device")
    cpu = cpu_of(platform, context.options.cpus.get(platform, ""))
    args = {"kind": "emulated", "platform": platform, "cpu": cpu.stand_in}
    place = f"qemu-user as {cpu.stand_in.partition(',')[0]}"
    return Where(platform, args, Proven("emulated", place), unproven=unproven)


def beforehand(place: Where) -> str:
    """What must be said of a platform before building starts; empty for nothing."""
    if place.nowhere:
        return f"artifacts are made but not proven: {place.nowhere}"
    if place.unproven:
        return f"artifacts stay unproven in part: {place.unproven}"
    return place.note

"""The platforms that artifacts can be made for, and the CPUs that code can be made for on each.

A platform is ``os/arch`` in the words that containers use. This table says what a compiler must be told, what can be
had for the platform, and with which CPU model qemu-user may stand in for it. It imports nothing heavy.
"""

from __future__ import annotations

import platform as machine
from collections.abc import Sequence
from dataclasses import dataclass, field

from convert.errors import InputError

#: What an artifact's numbers were proven with, in the report.
EMULATED = "emulated: numbers proven, latency not measured"

#: What an artifact says of itself, beside its files.
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Cpu:
    """A CPU, or a board by the CPU on it.

    Attributes:
        name: as it stands on the command line.
        mcpu, mattr: LLVM's name of it, and features to add.
        stand_in: qemu's model with no instruction that this CPU lacks, so that a wrong feature is caught; the
            prefix ``max`` where qemu has none such, and only the numbers are proven. Empty where it is not emulated.
    """

    name: str
    mcpu: str
    stand_in: str = ""
    mattr: tuple[str, ...] = ()


@dataclass(frozen=True)
class Platform:
    """One platform.

    Attributes:
        triple: LLVM's target triple.
        zig: the triple in the words of ``zig cc``, with the oldest glibc that the module may meet.
        compiler: the cross compiler of Debian and its relatives; empty for none.
        cpus: the choices of ``--cpu``, the default first.
        settings: further keys of TVM's target.
        emulated: whether artifacts of it can be run under emulation on another host.
        no_runtime: why an artifact cannot be run on the platform with what can be had; empty where it can.
        unproven: what emulation leaves open; empty for nothing but latency.
    """

    name: str
    triple: str
    cpus: tuple[Cpu, ...]
    zig: str = ""
    compiler: str = ""
    settings: dict[str, object] = field(default_factory=dict)
    emulated: bool = False
    no_runtime: str = ""
    unproven: str = ""


_ARM64 = (
    Cpu("generic", "generic", "cortex-a53"),
    Cpu("cortex-a53", "cortex-a53", "cortex-a53"),
    Cpu("cortex-a55", "cortex-a55", "cortex-a76"),
    Cpu("cortex-a57", "cortex-a57", "cortex-a57"),
    Cpu("cortex-a72", "cortex-a72", "cortex-a72"),
    Cpu("cortex-a76", "cortex-a76", "cortex-a76"),
    Cpu("cortex-a78", "cortex-a78", "cortex-a76"),
    Cpu("cortex-x1", "cortex-x1", "cortex-a76"),
    Cpu("neoverse-n1", "neoverse-n1", "neoverse-n1"),
    Cpu("apple-m1", "apple-m1", "max,sve=off,sme=off"),
    Cpu("rpi3", "cortex-a53", "cortex-a53"),
    Cpu("rpi4", "cortex-a72", "cortex-a72"),
    Cpu("rpi5", "cortex-a76", "cortex-a76"),
    Cpu("jetson-nano", "cortex-a57", "cortex-a57"),
    Cpu("jetson-orin", "cortex-a78ae", "cortex-a76"),
)
_ARM32 = (
    Cpu("generic", "generic", mattr=("+v7", "+vfp3")),
    Cpu("cortex-a7", "cortex-a7", mattr=("+neon", "+vfp4")),
    Cpu("cortex-a9", "cortex-a9", mattr=("+neon",)),
    Cpu("rpi2", "cortex-a7", mattr=("+neon", "+vfp4")),
)
_AMD64 = (
    Cpu("generic", "x86-64"),
    Cpu("x86-64-v2", "x86-64-v2"),
    Cpu("x86-64-v3", "x86-64-v3"),
    Cpu("x86-64-v4", "x86-64-v4"),
)
_RISCV64 = (Cpu("generic", "generic-rv64", mattr=("+m", "+a", "+f", "+d", "+c")),)

_ALL = (
    Platform("linux/amd64", "x86_64-linux-gnu", _AMD64, "x86_64-linux-gnu.2.28", "x86_64-linux-gnu-g++"),
    Platform(
        "linux/arm64", "aarch64-linux-gnu", _ARM64, "aarch64-linux-gnu.2.28", "aarch64-linux-gnu-g++", emulated=True
    ),
    Platform(
        "linux/arm/v7",
        "armv7-linux-gnueabihf",
        _ARM32,
        "arm-linux-gnueabihf.2.28",
        "arm-linux-gnueabihf-g++",
        {"mfloat-abi": "hard"},
        no_runtime="no runtime is published for linux/arm/v7 (neither TVM's, LiteRT's nor onnxruntime's)",
    ),
    Platform(
        "linux/riscv64",
        "riscv64-linux-gnu",
        _RISCV64,
        "riscv64-linux-gnu.2.28",
        "riscv64-linux-gnu-g++",
        {"mabi": "lp64d"},
        no_runtime="no runtime is published for linux/riscv64 (neither TVM's, LiteRT's nor onnxruntime's)",
    ),
    Platform(
        "android/arm64",
        "aarch64-linux-android",
        _ARM64,
        emulated=True,
        unproven=(
            "the numbers were proven with the Linux builds of the runtimes; that Android's own linker and C library "
            "take the artifact was not, since no runtime built for Android can be had here"
        ),
    ),
)

PLATFORMS: dict[str, Platform] = {platform.name: platform for platform in _ALL}


def host_platform() -> str:
    """This machine as ``os/arch``: ``linux/amd64``, ``linux/arm64``."""
    return named(machine.system().lower(), machine.machine())


def named(system: str, processor: str) -> str:
    """The platform of a system and processor in the words of ``uname``."""
    arch = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm/v7"}.get(processor, processor)
    return f"{system}/{arch}"


def parse_platforms(texts: Sequence[str]) -> tuple[str, ...]:
    """Read ``--platform``: names with commas between them, or the option given several times.

    Raises:
        InputError: a name is not known.
    """
    names = [part.strip() for text in texts for part in text.split(",")]
    known = tuple(dict.fromkeys((*PLATFORMS, host_platform())))
    for name in names:
        if name not in known:
            raise InputError(
                f"--platform {','.join(texts)!r} names {name or 'nothing'}; choose from {', '.join(known)} "
                "(several with commas between them)"
            )
    return tuple(dict.fromkeys(names))


def parse_cpus(texts: Sequence[str], platforms: Sequence[str]) -> dict[str, str]:
    """Read ``--cpu``: the CPU of every platform that has one of that name.

    Returns:
        Platform -> name of the CPU, for those that one was chosen for.

    Raises:
        InputError: a name is not known, fits none of ``platforms``, or is the second one for a platform.
    """
    chosen: dict[str, str] = {}
    for name in [part.strip() for text in texts for part in text.split(",")]:
        fitting = [platform for platform in platforms if platform in PLATFORMS and _has(platform, name)]
        if not fitting:
            there = "; ".join(f"{p}: {_choices(p)}" for p in platforms)
            raise InputError(f"--cpu {name!r} is no CPU of the platforms asked for; choose from {there}")
        for platform in fitting:
            if chosen.setdefault(platform, name) != name:
                raise InputError(
                    f"--cpu names {chosen[platform]} and {name}, both for {platform}; choose one for each platform"
                )
    return chosen


def _choices(platform: str) -> str:
    known = PLATFORMS.get(platform)
    return "none" if known is None else ", ".join(cpu.name for cpu in known.cpus)


def _has(platform: str, cpu: str) -> bool:
    return any(one.name == cpu for one in PLATFORMS[platform].cpus)


def cpu_of(platform: str, name: str = "") -> Cpu:
    """The CPU called ``name`` of ``platform``, its default without a name; raises ``KeyError`` where there is none."""
    found = [cpu for cpu in PLATFORMS[platform].cpus if name in ("", cpu.name)]
    if not found:
        raise KeyError(name)
    return found[0]


def folder_of(target: str, precision: str, platform: str, host: str = "") -> str:
    """Where an artifact lies below the output folder: ``tvm/float32``, ``linux-arm64/tvm/float32`` if foreign.

    Args:
        target: the name of the target.
        precision: as on the command line.
        platform: what the artifact is for.
        host: the platform of the run's host, where that is not this one.
    """
    below = f"{target}/{precision}"
    return below if platform == (host or host_platform()) else f"{platform.replace('/', '-')}/{below}"

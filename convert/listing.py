"""What ``convert targets``, ``convert platforms`` and ``convert toolchain list`` print."""

from __future__ import annotations

from rich.table import Table

from convert.console import stdout
from convert.emulation import find_emulation
from convert.platforms import PLATFORMS, Cpu, Platform, host_platform
from convert.targets import TARGETS, load_target
from convert.targets.base import Target
from convert.targets.tvm_link import lacking, linker_for
from convert.toolchains import TOOLCHAINS, find, install_command, status


def print_targets() -> None:
    """One row per target: whether it can be made, versions, what is missing and the command that gets it."""
    table = _table("target", "ready", "precisions", "routes", "versions", "missing")
    for name in TARGETS:
        target = load_target(name)
        missing = _missing(target)
        environment = find(target.runtime_toolchain)
        versions = environment.versions if environment else {}
        shown = ", ".join(f"{d} {versions[d]}" for d in target.distributions if d in versions)
        table.add_row(
            name,
            "yes" if not missing else "no",
            ", ".join(target.precisions),
            ", ".join(route.name for route in target.routes(target.precisions[0])),
            shown or "–",
            "; ".join(missing) or "–",
        )
    stdout().print(table)


def _missing(target: Target) -> list[str]:
    needed = {target.runtime_toolchain}
    for precision in target.precisions:
        for route in target.routes(precision):
            needed |= {route.toolchain} | ({route.borrows} if route.borrows else set())
    lacking = [f"toolchain {name}: {install_command(name)}" for name in sorted(needed) if find(name) is None]
    host = target.missing()
    return [*lacking, *([host] if host else []), *([target.device] if target.device and lacking else [])]


def print_platforms() -> None:
    """One row per platform, with how its artifacts are proven here; then one row per choice of ``--cpu``."""
    emulation = find_emulation()
    zig = () if emulation is None else emulation.zig
    table = _table("platform", "triple", "proven here", "tvm links by")
    for name, platform in PLATFORMS.items():
        linker = linker_for(name, zig)
        table.add_row(
            name,
            platform.triple,
            _proven_here(platform, emulation is not None),
            linker.name if linker is not None else lacking(name, zig),
        )
    stdout().print(table)
    stdout().print()
    stdout().print(_cpus())


def _cpus() -> Table:
    """Platforms with the same CPUs share their rows; the first CPU is the default, here that of this machine."""
    table = _table("platform", "--cpu", "mcpu", "mattr", "emulated as")
    sharing: dict[tuple[Cpu, ...], list[str]] = {}
    for name, platform in PLATFORMS.items():
        sharing.setdefault(platform.cpus, []).append(name)
    for cpus, names in sharing.items():
        here = host_platform() in names
        if here:
            table.add_row(", ".join(names), "none (default)", "this machine's own", "–", "–")
        for cpu in cpus:
            default = f"{cpu.name} (default)" if cpu is cpus[0] and not here else cpu.name
            table.add_row(", ".join(names), default, cpu.mcpu, ",".join(cpu.mattr) or "–", cpu.stand_in or "–")
    return table


def _proven_here(platform: Platform, emulation: bool) -> str:
    if platform.name == host_platform():
        return "natively"
    if not platform.emulated:
        return f"no: {platform.no_runtime or 'there is no emulation of it'}"
    if not emulation:
        return f"no: {install_command('arm64-emulation')}"
    return "numbers under emulation" + (", not its loading" if platform.unproven else "")


def print_toolchains() -> None:
    """One row per toolchain."""
    table = _table("toolchain", "state", "purpose", "versions", "place or command")
    for name in TOOLCHAINS:
        one = status(name)
        found = one.environment
        state = "installed" if found else ("optional, not installed" if one.toolchain.optional else "not installed")
        shown = ", ".join(f"{key} {value}" for key, value in found.versions.items()) if found else "–"
        table.add_row(
            name,
            one.problem or state,
            one.toolchain.purpose,
            shown,
            str(found.python.parent.parent) if found else one.install,
        )
    stdout().print(table)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table

"""Where the artifacts of each platform are proven, and what is said of it before anything is built."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import options

from convert.context import Context
from convert.errors import InputError, StageError
from convert.jobs import Limits, Runner
from convert.platforms import EMULATED, PLATFORMS
from convert.records import Device
from convert.remote import opening
from convert.steps import places
from convert.steps.places import HERE, Where, beforehand, where

PI = Device("ssh://pi@garden", "linux/arm64", "Cortex-A76", "ondemand", 51.4)


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """An x86-64 Linux with the emulation installed."""
    monkeypatch.setattr(places, "host_platform", lambda: "linux/amd64")
    monkeypatch.setattr(places, "find_emulation", lambda: SimpleNamespace())


def looked_up(platform: str, **given: Any) -> Where:
    runner = Runner(Path("jobs"), Path("logs"), Limits(1))
    return where(Context(options.make(**given), Path("out"), runner), platform)


def test_the_host_is_no_other_place() -> None:
    found = looked_up("linux/amd64")
    assert (found.args, found.proven, found.nowhere, found.unproven, found.note) == (None, None, "", "", "")
    assert found.timed
    assert beforehand(found) == ""
    assert HERE.args is None


def test_another_platform_is_emulated_as_the_default_cpu() -> None:
    found = looked_up("linux/arm64")
    assert found.args == {"kind": "emulated", "platform": "linux/arm64", "cpu": "cortex-a53"}
    assert found.note == beforehand(found) == f"{EMULATED} (qemu-user as cortex-a53)"
    assert not found.timed
    assert (found.nowhere, found.unproven) == ("", "")


@pytest.mark.parametrize(
    ("cpu", "stand_in", "shown"),
    [
        ("rpi5", "cortex-a76", "cortex-a76"),
        ("neoverse-n1", "neoverse-n1", "neoverse-n1"),
        ("apple-m1", "max,sve=off,sme=off", "max"),
    ],
)
def test_the_chosen_cpu_decides_the_stand_in(cpu: str, stand_in: str, shown: str) -> None:
    found = looked_up("linux/arm64", cpus={"linux/arm64": cpu, "android/arm64": "rpi3"})
    assert found.args is not None
    assert found.args["cpu"] == stand_in
    assert found.note.endswith(f"(qemu-user as {shown})")


def test_a_device_is_chosen_over_the_emulation() -> None:
    found = looked_up("linux/arm64", devices=(Device("adb:7", "android/arm64"), PI))
    assert found.args == {"kind": "device", "name": "ssh://pi@garden", "platform": "linux/arm64"}
    assert found.timed
    assert found.note == "proven on ssh://pi@garden (Cortex-A76, governor ondemand, 51 °C)"


def test_a_device_is_chosen_over_the_host_and_where_there_is_no_emulation() -> None:
    here = looked_up("linux/amd64", devices=(Device("ssh://other", "linux/amd64"),))
    assert here.args is not None
    assert here.note == "proven on ssh://other"
    board = looked_up("linux/riscv64", devices=(Device("ssh://board", "linux/riscv64"),))
    assert (board.nowhere, board.timed) == ("", True)


def test_a_device_of_another_platform_proves_nothing() -> None:
    assert looked_up("linux/riscv64", devices=(PI,)).nowhere
    assert looked_up("android/arm64", devices=(PI,)).args == {
        **{"kind": "emulated", "platform": "android/arm64", "cpu": "cortex-a53"}
    }


def test_without_the_toolchain_nothing_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "find_emulation", lambda: None)
    found = looked_up("linux/arm64")
    assert found.args is None
    assert found.nowhere == (
        "the toolchain arm64-emulation is not installed, which runs its artifacts; get it with "
        "`convert toolchain install arm64-emulation`, or give a device with --device"
    )
    assert beforehand(found) == f"artifacts are made but not proven: {found.nowhere}"


@pytest.mark.parametrize("platform", ["linux/arm/v7", "linux/riscv64"])
def test_a_platform_without_a_runtime(platform: str) -> None:
    found = looked_up(platform)
    assert found.nowhere == PLATFORMS[platform].no_runtime
    assert beforehand(found) == f"artifacts are made but not proven: no runtime is published for {platform} " + (
        "(neither TVM's, LiteRT's nor onnxruntime's)"
    )


@pytest.mark.parametrize("platform", ["darwin/arm64", "linux/amd64"])
def test_a_platform_that_nothing_stands_in_for(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "host_platform", lambda: "linux/arm64")
    assert looked_up(platform).nowhere == (
        f"{platform} is not emulated here; convert on such a machine, or give one with --device"
    )


def test_what_emulation_leaves_open_is_said() -> None:
    found = looked_up("android/arm64")
    assert found.unproven == PLATFORMS["android/arm64"].unproven
    assert beforehand(found).startswith("artifacts stay unproven in part: the numbers were proven with the Linux")
    device = looked_up("android/arm64", devices=(Device("adb:7", "android/arm64"),))
    assert device.unproven == found.unproven


def test_the_worker_says_that_the_toolchain_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "find_emulation", lambda: None)
    found = looked_up("linux/arm64")
    assert found.args is not None
    with pytest.raises(StageError, match="the toolchain arm64-emulation is gone; get it with `convert"):
        opening.place_of(found.args)


def test_a_toolchain_that_is_not_whole_is_said_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise InputError("it is not whole")

    monkeypatch.setattr(places, "find_emulation", broken)
    with pytest.raises(InputError, match="it is not whole"):
        looked_up("linux/arm64")

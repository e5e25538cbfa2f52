"""``--platform``, ``--cpu`` and ``--device`` together, and what ``convert platforms`` says."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from convert import listing, platforms, run_options
from convert.errors import InputError
from convert.listing import print_platforms
from convert.platforms import PLATFORMS
from convert.records import Device
from convert.run_options import _settle_platforms
from convert.targets import tvm_link

#: What stands behind each name when it is asked.
DEVICES = {
    "adb:phone": "android/arm64",
    "adb:tablet": "android/arm64",
    "ssh://pi": "linux/arm64",
    "ssh://pc": "linux/amd64",
    "ssh://board": "linux/ppc64le",
}


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An x86-64 Linux with a few devices; gives the names of those that were asked."""
    asked: list[str] = []

    def look_at(transport: Any) -> Device:
        asked.append(transport.name)
        return Device(transport.name, DEVICES[transport.name])

    monkeypatch.setattr(run_options, "look_at", look_at)
    for module in (platforms, run_options, listing, tvm_link):
        monkeypatch.setattr(module, "host_platform", lambda: "linux/amd64")
    return asked


def settled(platform: str = "", cpu: str = "", device: str = "") -> dict[str, Any]:
    given = {"platform": platform, "cpu": cpu, "device": device}
    return _settle_platforms({name: value.split(";") if value else [] for name, value in given.items()})


def refusal(**given: str) -> str:
    with pytest.raises(InputError) as caught:
        settled(**given)
    return str(caught.value)


def test_without_a_word_it_is_the_host() -> None:
    assert settled() == {"platforms": ("linux/amd64",), "cpus": {}, "devices": ()}
    assert settled(cpu="x86-64-v3")["cpus"] == {"linux/amd64": "x86-64-v3"}


def test_a_device_says_which_platform_is_meant() -> None:
    found = settled(device="ssh://pi;adb:phone")
    assert found["platforms"] == ("linux/arm64", "android/arm64")
    assert [device.name for device in found["devices"]] == ["ssh://pi", "adb:phone"]
    assert settled(cpu="rpi5", device="ssh://pi")["cpus"] == {"linux/arm64": "rpi5"}


def test_a_device_may_serve_one_platform_of_several() -> None:
    found = settled(platform="linux/amd64,linux/arm64", device="ssh://pi", cpu="rpi5,x86-64-v2")
    assert found["platforms"] == ("linux/amd64", "linux/arm64")
    assert found["cpus"] == {"linux/amd64": "x86-64-v2", "linux/arm64": "rpi5"}


def test_a_device_of_a_platform_that_was_not_asked_for() -> None:
    assert refusal(platform="linux/amd64,android/arm64", device="ssh://pi") == (
        "--device ssh://pi is linux/arm64, and --platform asks for linux/amd64, android/arm64; name that platform "
        "too, or leave --platform out"
    )


def test_two_devices_of_one_platform() -> None:
    assert refusal(device="adb:phone;adb:tablet") == (
        "--device adb:phone and adb:tablet are both android/arm64; give one for each platform"
    )


def test_a_device_of_a_platform_that_nothing_is_made_for() -> None:
    assert refusal(device="ssh://board") == (
        f"--device ssh://board is linux/ppc64le; allowed are {', '.join(PLATFORMS)}"
    )


@pytest.mark.parametrize(
    "given",
    [
        {"cpu": "rpi5"},  # of another platform than this host
        {"cpu": "rpi5", "platform": "linux/riscv64"},
        {"cpu": "cortex-a7", "platform": "linux/arm64,android/arm64"},
        {"cpu": "rpi4;x86-64-v2", "platform": "linux/arm64"},
        {"cpu": "", "platform": "linux/beos"},
    ],
)
def test_what_can_be_refused_without_a_device_is(given: dict[str, str], host: list[str]) -> None:
    wanted = "no CPU of the platforms asked for; choose from" if given["cpu"] else "names linux/beos; choose from"
    assert wanted in refusal(**given)
    if given.get("platform"):
        assert wanted in refusal(**given, device="ssh://pi")
    assert host == []


def test_a_cpu_of_another_platform_than_the_device() -> None:
    assert refusal(cpu="x86-64-v3", device="ssh://pi").startswith(
        "--cpu 'x86-64-v3' is no CPU of the platforms asked for; choose from linux/arm64: generic, cortex-a53, "
    )


def test_a_host_without_cpus_to_choose_from(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (platforms, run_options):
        monkeypatch.setattr(module, "host_platform", lambda: "darwin/arm64")
    assert settled()["platforms"] == ("darwin/arm64",)
    assert refusal(cpu="apple-m1") == (
        "--cpu 'apple-m1' is no CPU of the platforms asked for; choose from darwin/arm64: none"
    )


def listed(monkeypatch: pytest.MonkeyPatch, emulation: Any) -> tuple[dict[str, str], list[list[str]]]:
    """What ``convert platforms`` prints: platform -> the rest of its line, and the cells of the CPUs' table."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("ANDROID_NDK_HOME", raising=False)
    monkeypatch.setattr(listing, "find_emulation", lambda: emulation)
    out = io.StringIO()
    monkeypatch.setattr(listing, "stdout", lambda: Console(file=out, width=1000))
    print_platforms()
    places, cpus = (table.splitlines() for table in out.getvalue().split("\n\n"))
    assert cells(places[0]) == ["platform", "triple", "proven here", "tvm links by"]
    assert cells(cpus[0]) == ["platform", "--cpu", "mcpu", "mattr", "emulated as"]
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in places[1:]}
    return lines, [cells(line) for line in cpus[1:]]


def cells(line: str) -> list[str]:
    return [part.strip() for part in line.split("  ") if part.strip()]


def test_the_platforms_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, cpus = listed(monkeypatch, SimpleNamespace(zig=("zig",)))
    assert list(lines) == list(PLATFORMS)
    assert lines["linux/amd64"].startswith("x86_64-linux-gnu natively a C++ compiler to link with")
    arm = "zig cc -target aarch64-linux-gnu.2.28"
    assert lines["linux/arm64"] == f"aarch64-linux-gnu numbers under emulation {arm}"
    assert lines["android/arm64"] == "aarch64-linux-android numbers under emulation, not its loading zig ld.lld"
    for name, triple in (("linux/arm/v7", "armv7-linux-gnueabihf"), ("linux/riscv64", "riscv64-linux-gnu")):
        assert lines[name].startswith(f"{triple} no: {PLATFORMS[name].no_runtime} zig cc -target ")
    assert ["linux/arm64, android/arm64", "rpi5", "cortex-a76"] in [row[:3] for row in cpus]
    assert {name for row in cpus for name in row[0].split(", ")} == set(PLATFORMS)


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, _ = listed(monkeypatch, None)
    assert lines["linux/arm64"].startswith(
        "aarch64-linux-gnu no: convert toolchain install arm64-emulation a cross compiler for linux/arm64 "
        "(aarch64-linux-gnu-g++ is not "
    )


def test_an_ndk_that_is_none_does_not_end_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    real = tvm_link.linker_for

    def with_ndk(*given: Any) -> Any:
        monkeypatch.setenv("ANDROID_NDK_HOME", "/nowhere")
        return real(*given)

    monkeypatch.setattr(listing, "linker_for", with_ndk)
    lines, _ = listed(monkeypatch, SimpleNamespace(zig=("zig",)))
    assert "ANDROID_NDK_HOME is '/nowhere', which holds none" in lines["android/arm64"]
    assert list(lines) == list(PLATFORMS)

"""The platforms and CPUs of the command line, and where artifacts of each lie."""

from __future__ import annotations

import pytest

from convert import platforms
from convert.errors import InputError
from convert.platforms import PLATFORMS, cpu_of, folder_of, parse_cpus, parse_platforms


@pytest.fixture(autouse=True)
def amd64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platforms, "host_platform", lambda: "linux/amd64")


def test_names_with_commas_and_repetitions() -> None:
    assert parse_platforms(["linux/arm64,android/arm64", "linux/arm64"]) == ("linux/arm64", "android/arm64")


@pytest.mark.parametrize(
    ("texts", "wrong"),
    [(["linux/arm64,beos/ppc"], "names beos/ppc"), ([""], "names nothing"), (["linux/arm64,"], "names nothing")],
)
def test_an_unknown_platform(texts: list[str], wrong: str) -> None:
    with pytest.raises(InputError, match=wrong) as found:
        parse_platforms(texts)
    assert "linux/arm64, linux/arm/v7" in str(found.value)


def test_a_cpu_serves_every_platform_that_has_it() -> None:
    asked = ("linux/arm64", "android/arm64", "linux/arm/v7")
    assert parse_cpus(["rpi4"], asked) == {"linux/arm64": "rpi4", "android/arm64": "rpi4"}
    assert parse_cpus(["rpi4,cortex-a7"], asked)["linux/arm/v7"] == "cortex-a7"


def test_a_cpu_of_no_platform_that_was_asked_for() -> None:
    with pytest.raises(InputError, match=r"'rpi4' is no CPU of .*linux/riscv64: generic"):
        parse_cpus(["rpi4"], ("linux/riscv64",))


def test_two_cpus_for_one_platform() -> None:
    with pytest.raises(InputError, match=r"names rpi4 and rpi5, both for linux/arm64"):
        parse_cpus(["rpi4", "rpi5"], ("linux/arm64",))


def test_the_default_is_the_first() -> None:
    assert cpu_of("linux/arm64").name == "generic"
    assert cpu_of("linux/arm64", "rpi5").mcpu == "cortex-a76"
    with pytest.raises(KeyError):
        cpu_of("linux/arm64", "cortex-a7")


@pytest.mark.parametrize("name", [name for name, one in PLATFORMS.items() if one.emulated])
def test_every_cpu_of_an_emulated_platform_has_a_stand_in(name: str) -> None:
    assert all(cpu.stand_in for cpu in PLATFORMS[name].cpus)


def test_a_platform_is_emulated_or_says_what_it_lacks_or_is_a_host() -> None:
    for name, one in PLATFORMS.items():
        assert one.emulated or one.no_runtime or name == "linux/amd64"


def test_folders_of_foreign_artifacts_are_apart() -> None:
    assert folder_of("tvm", "float32", "linux/amd64") == "tvm/float32"
    assert folder_of("tvm", "float32", "linux/arm/v7") == "linux-arm-v7/tvm/float32"

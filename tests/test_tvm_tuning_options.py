"""``--tune`` and ``--tuning-db``: what they may be, and how each mistake is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from convert import tuning_options
from convert.errors import InputError
from convert.records_tuning import Tuned, Tuning
from convert.steps.places import Where
from convert.steps.tune import cannot_tune, tuning_words
from convert.targets.tvm_tuning.budget import Budget
from convert.targets.tvm_tuning.database import write
from convert.targets.tvm_tuning.records import Identity, Records, Spent
from convert.tuning_options import parse_budget, settle_tuning


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("500", (500, None)), ("1", (1, None)), ("10m", (None, 600.0)), ("0.5m", (None, 30.0)), (" 8 ", (8, None))],
)
def test_trials_or_minutes(text: str, wanted: tuple[int | None, float | None]) -> None:
    assert parse_budget(text) == wanted


WRONG = "0|0m|0.0m|-3|-3m|5x|x|m|nan|inf|infm|nanm|1e3|5.5|1000001|10081m|٣||10 m|" + "9" * 400


@pytest.mark.parametrize("text", WRONG.split("|"))
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^--tune .* cannot be used; write a number of trials from 1 to 1000000, as"):
        parse_budget(text)


def settled(targets: str = "onnx,tvm", **given: Any) -> Tuning:
    return settle_tuning({"tune": None, "tuning_db": None} | given, targets.split(","))


def refused(targets: str = "onnx,tvm", **given: Any) -> str:
    with pytest.raises(InputError) as caught:
        settled(targets, **given)
    return str(caught.value)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "pi.json"
    write(file, Records(Identity("0.27.0.post1", "aarch64", "cortex-a72")))
    return file


def test_what_is_asked_for(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_options, "tvm_version", lambda: "0.27.0.post1")
    assert settled() == Tuning()
    assert not settled().wanted
    assert settled(tune="500") == Tuning(trials=500)
    assert settled(tune="2m", tuning_db=str(database)) == Tuning(seconds=120.0, database=str(database))
    assert settled(tuning_db="none") == Tuning(use=False)
    monkeypatch.setattr(tuning_options, "tvm_version", lambda: "")  # without the toolchain, the build itself will see
    assert settled(tuning_db=str(database)).database == str(database)


def test_it_is_for_tvm() -> None:
    for option, given in (("--tune '500'", {"tune": "500"}), ("--tuning-db 'none'", {"tuning_db": "none"})):
        assert refused("onnx,tflite", **given).startswith(
            f"{option} is about kernels of tvm, and --target is onnx, tfl"
        )
    assert refused(tune="5", tuning_db="none").startswith("--tuning-db none uses no tuned kernels, and --tune looks")


def test_a_database_that_cannot_be_used(database: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tuning_options, "tvm_version", lambda: "0.28.0")
    assert refused(tuning_db=str(database)) == (
        f"--tuning-db {database} is for TVM 0.27.0.post1, and the toolchain tvm has 0.28.0; tune again with this "
        "version, or leave --tuning-db out"
    )
    assert refused(tuning_db=str(tmp_path / "no.json")).endswith(
        "no.json is no file; give one from `convert tuning export`"
    )
    assert refused(tuning_db="").startswith("--tuning-db '' is no file")
    database.write_text(json.dumps({"schema": "other"}), encoding="utf-8")
    assert refused(tuning_db=str(database)).startswith(
        f"--tuning-db {database} cannot be used: it is no tuning database of this program; give one"
    )


def test_a_budget_counts_over_all_runs() -> None:
    now = [100.0]
    trials = Budget(500, None, Spent(480, 99.0), clock=lambda: now[0])
    assert trials.left == 20
    assert trials.describe() == "480 of 500 trials"
    trials.done, now[0] = 16, 132.0
    assert (trials.left, trials.elapsed, trials.describe()) == (4, 32.0, "496 of 500 trials, about 8 s left")
    trials.done = 30
    assert trials.left == 0
    minutes = Budget(None, 600.0, Spent(7, 500.0), clock=lambda: now[0])
    assert minutes.left > 10**6
    now[0] += 40
    assert minutes.describe() == "7 trials, about 60 s left"
    now[0] += 60
    assert minutes.left == 0


def test_only_this_host_and_devices_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convert.steps.tune.host_platform", lambda: "linux/amd64")
    assert cannot_tune(Where("linux/amd64"), {}) == ""
    for cpus, cpu in (({}, "generic"), ({"linux/arm64": "cortex-a72"}, "cortex-a72")):
        assert cannot_tune(Where("linux/arm64"), cpus) == (
            f"tuning needs a device with the CPU it is for (linux/arm64 {cpu}), and none was given with --device; what "
            "an earlier run or --tuning-db has for that CPU is used, since times of this host or of an emulator say "
            "nothing about it"
        )
    emulated = {"kind": "emulated", "platform": "linux/arm64", "cpu": "cortex-a53"}
    assert "(linux/arm64 generic)" in cannot_tune(Where("linux/arm64", emulated), {})
    assert (
        cannot_tune(Where("linux/arm64", {"kind": "device", "name": "ssh://pi", "platform": "linux/arm64"}), {}) == ""
    )
    assert "(linux/amd64 x86-64-v3)" in cannot_tune(Where("linux/amd64"), {"linux/amd64": "x86-64-v3"})


def test_the_result_in_words() -> None:
    found = Tuned(33, 0, 31, 96, 61.2, 32, 0.0167, 0.24, "x.json")
    assert tuning_words(found) == (
        "tuned 31 of 33 kernels in 96 trials after 32 of earlier runs and 61 s, together 240 ms by the rules and "
        "16.7 ms with the best"
    )
    assert tuning_words(Tuned(0, 4, 0, 0, 0.0, 0, 0.0, 0.0, "x.json")).startswith(
        "nothing was tuned: none of the 4 kernels has fixed sizes; give sizes without dimensions with --input"
    )
    assert tuning_words(Tuned(2, 4, 1, 8, 9.0, 0, 0.0, 0.0, "x.json")) == (
        "tuned 1 of 2 kernels in 8 trials and 9 s; 4 more have sizes that are not fixed, and stay as they are"
    )

"""A device behind adb, by a fake adb that really runs the commands in a folder."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from helpers.fake_device import ECHO, make_device
from helpers.processes import wait_until

from convert.errors import InputError, StageError
from convert.platforms import host_platform
from convert.remote.devices import LOST, look_at, parse_device
from convert.remote.on_device import OnDevice
from convert.remote.place import Program
from convert.remote.session import Remote

NAME = "adb:emulator-5554"
FEED = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_device(tmp_path / "device", monkeypatch)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    file = tmp_path / "echo.py"
    file.write_text(ECHO)
    return Program({"sub/echo.py": file}, (sys.executable, "sub/echo.py"), {"PLACE": "{folder}/x"})


def start(program: Program, mood: str = "") -> tuple[OnDevice, Remote]:
    place = OnDevice(parse_device(NAME), host_platform())
    return place, Remote(place, Program(program.files, program.words, {"MOOD": mood}))


def test_it_says_what_it_is(files: Path) -> None:
    device = look_at(parse_device(NAME))
    assert (device.name, device.platform) == (NAME, host_platform())
    assert list(files.iterdir()) == []


def test_runs_times_and_leaves_nothing(files: Path, program: Program) -> None:
    place, remote = start(program)
    assert len(list(files.iterdir())) == 1
    np.testing.assert_array_equal(remote.run([FEED, FEED[0]])[1], FEED[0])
    assert remote.times(3) == [0.25] * 3
    assert remote.peak_memory() == 3 << 20
    remote.close()
    assert list(files.iterdir()) == []
    place.close()


@pytest.mark.parametrize(
    ("mood", "why"),
    [
        ("illegal", r"emulator-5554: the program ended by SIGILL \(an illegal instruction"),
        ("noise", "begins no answer"),
        ("complain", "emulator-5554: too warm"),
    ],
)
def test_a_program_that_fails_is_one_sentence(files: Path, program: Program, mood: str, why: str) -> None:
    place, remote = start(program, mood)
    with pytest.raises(StageError, match=why):
        remote.run([FEED])
    remote.close()
    place.close()
    assert list(files.iterdir()) == []


def test_a_line_that_is_lost_in_the_middle_is_one_sentence(files: Path, program: Program) -> None:
    place, remote = start(program, "hang")
    line = int((files.parent / "pids").read_text().split()[-1])
    # The program answers nothing in this mood, so that it is in the middle whenever the line is cut.
    cut = threading.Timer(0.2, os.kill, (line, signal.SIGKILL))
    cut.start()
    with pytest.raises(
        StageError, match=r"emulator-5554: .* the connection is lost, since the local client was ended by"
    ):
        remote.run([FEED])
    cut.join()
    place.close()
    remote.close()
    assert list(files.iterdir()) == []


def test_a_device_that_goes_away_in_the_middle_cleans_up_by_itself(files: Path, program: Program) -> None:
    (files.parent / "cut").write_text("echo.py 0 20")
    place, remote = start(program)
    with pytest.raises(StageError, match=r"emulator-5554: .* the connection is lost"):
        remote.run([FEED])
    place.close()  # which cannot reach it
    remote.close()
    with pytest.raises(InputError, match="'emulator-5554' not found"):
        look_at(parse_device(NAME))
    wait_until(lambda: list(files.iterdir()) == [], 60, "the folder on the device is gone")


@pytest.mark.parametrize(("code", "words"), [(0, LOST), (255, LOST), (1, "ended with exit code 1"), (-15, "SIGTERM")])
def test_how_the_client_ended(code: int, words: str) -> None:
    assert words in parse_device(NAME).ended(code)


def test_a_program_that_is_not_there(files: Path, program: Program) -> None:
    place = OnDevice(parse_device(NAME), host_platform())
    with pytest.raises(StageError, match=r"ended with exit code 127 \(.*no-such-program: not found\)"):
        Remote(place, Program(program.files, ("no-such-program",)))
    place.close()
    assert list(files.iterdir()) == []


def test_a_serial_that_is_not_there(files: Path) -> None:
    with pytest.raises(InputError, match=r"--device adb:other cannot be used: error: device 'other' not found"):
        look_at(parse_device("adb:other"))


def test_no_adb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InputError, match="needs the program adb, which is not on the PATH"):
        look_at(parse_device(NAME))


@pytest.mark.parametrize("text", ["ssh://", "ssh://-oProxyCommand=x", "adb:", "adb:-s", "http://host", "host", ""])
def test_what_is_no_device(text: str) -> None:
    with pytest.raises(InputError, match=r"is no device; write ssh://user@host"):
        parse_device(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ssh://pi@garden", ["--", "pi@garden"]),
        ("ssh://garden:2222/", ["-p", "2222", "--", "garden"]),
        ("ssh://pi@[fe80::1%eth0]:22", ["-p", "22", "--", "pi@fe80::1%eth0"]),
    ],
)
def test_how_ssh_is_called(monkeypatch: pytest.MonkeyPatch, text: str, words: list[str]) -> None:
    monkeypatch.setenv("CONVERT_SSH", f"{sys.executable} -F 'my config'")
    command = parse_device(text).command("uname")
    assert command[:3] == [sys.executable, "-F", "my config"]
    assert command[-len(words) - 1 : -1] == words
    assert command[-1] == "exec sh -c uname"

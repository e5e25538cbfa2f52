"""A device behind ssh: OpenSSH's own client and server, on the loopback."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers import sshd
from helpers.command import listing
from helpers.fake_device import ECHO
from helpers.processes import wait_until

from convert.errors import InputError, StageError
from convert.platforms import host_platform
from convert.remote.devices import LOST, look_at, parse_device
from convert.remote.on_device import OnDevice
from convert.remote.place import Program
from convert.remote.session import Remote

pytestmark = sshd.needed
FEED = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sshd.Sshd]:
    folder = tmp_path / "a server"
    folder.mkdir()
    with sshd.serving(folder, {"PATH": os.environ["PATH"]}) as found:
        monkeypatch.setenv("CONVERT_SSH", found.client)
        yield found


@pytest.fixture
def program(tmp_path: Path) -> Program:
    file = tmp_path / "echo.py"
    file.write_text(ECHO)
    return Program({"echo.py": file}, (sys.executable, "echo.py"))


def start(server: sshd.Sshd, program: Program, mood: str = "") -> tuple[OnDevice, Remote]:
    place = OnDevice(parse_device(server.name), host_platform())
    return place, Remote(place, Program(program.files, program.words, {"MOOD": mood}))


def test_it_says_what_it_is(server: sshd.Sshd) -> None:
    device = look_at(parse_device(server.name))
    assert (device.name, device.platform) == (server.name, host_platform())
    assert listing(server.scratch) == {}


def test_runs_and_leaves_nothing(server: sshd.Sshd, program: Program) -> None:
    place, remote = start(server, program)
    assert len(list(server.scratch.iterdir())) == 1
    np.testing.assert_array_equal(remote.run([FEED])[0], FEED)
    assert remote.times(2) == [0.25] * 2
    remote.close()
    wait_until(lambda: listing(server.scratch) == {}, 60, "the device has removed the folder by itself")
    place.close()


def test_a_program_that_a_signal_ends_there(server: sshd.Sshd, program: Program) -> None:
    place, remote = start(server, program, "illegal")
    with pytest.raises(StageError, match=r"^ssh://.*: the program ended by SIGILL \(an illegal instruction"):
        remote.run([FEED])
    remote.close()
    place.close()
    assert listing(server.scratch) == {}


def test_a_connection_that_is_lost_in_the_middle(server: sshd.Sshd, program: Program) -> None:
    place, remote = start(server, program, "hang")
    # The program answers nothing in this mood, so that it is in the middle whenever the line is cut.
    cut = threading.Timer(0.2, server.cut)
    cut.start()
    with pytest.raises(StageError) as found:
        remote.run([FEED])
    cut.join()
    remote.close()
    assert str(found.value).startswith(f"{server.name}: the program {LOST} (")
    wait_until(lambda: listing(server.scratch) == {}, 60, "the device has removed the folder by itself")
    place.close()


def test_a_key_that_is_not_known(server: sshd.Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVERT_SSH", server.stranger)
    with pytest.raises(InputError, match=r"--device ssh://.* cannot be used: .*Permission denied \(publickey\)"):
        look_at(parse_device(server.name))

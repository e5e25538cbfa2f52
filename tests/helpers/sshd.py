"""A real OpenSSH server on the loopback, run by the user of the tests, with keys of its own."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from helpers.processes import wait_until

SERVER = shutil.which("sshd", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
#: For tests that need both. Where CI runs them they must be there: a test that is skipped there never runs.
needed = pytest.mark.skipif(
    (SERVER is None or shutil.which("ssh") is None) and not os.environ.get("CI"),
    reason="OpenSSH is missing: apt-get install openssh-server openssh-client",
)

_SERVER = """\
ListenAddress 127.0.0.1
Port {port}
HostKey "{folder}/host"
AuthorizedKeysFile "{folder}/user.pub"
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PidFile none
"""
_CLIENT = """\
Host *
    IdentityFile "{folder}/{key}"
    IdentitiesOnly yes
    IdentityAgent none
    UserKnownHostsFile "{folder}/known"
    GlobalKnownHostsFile none
    StrictHostKeyChecking accept-new
"""


@dataclass(frozen=True)
class Sshd:
    """A server that listens.

    Attributes:
        name: the device, as the user of the command writes it.
        scratch: the folder that programs are put in there.
        client: what the variable ``CONVERT_SSH`` must say.
        stranger: the same with a key that the server does not know.
    """

    name: str
    scratch: Path
    client: str
    stranger: str
    _process: subprocess.Popen[bytes]

    def cut(self) -> None:
        """End every connection from the side of the server, as if it were switched off."""
        for child in psutil.Process(self._process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.name().startswith("sshd"):
                    child.kill()

    def connected(self) -> bool:
        """Whether there is a connection."""
        return bool(psutil.Process(self._process.pid).children())


@contextlib.contextmanager
def serving(folder: Path, variables: Mapping[str, str], forced: Path | None = None) -> Iterator[Sshd]:
    """A server whose files are in ``folder``.

    Args:
        folder: an empty one.
        variables: what is set for the commands that come.
        forced: program that is run instead of them, with the command in ``SSH_ORIGINAL_COMMAND``.
    """
    assert SERVER is not None, "sshd is missing: apt-get install openssh-server"
    for name in ("host", "user", "stranger"):
        _make_key(folder / name)
    scratch = folder / "scratch"
    scratch.mkdir()
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # which sshd demands of root
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text = _SERVER.format(port=port, folder=folder)
    text += "SetEnv " + " ".join(f'"{key}={value}"' for key, value in {"TMPDIR": scratch, **variables}.items()) + "\n"
    text += "" if forced is None else f'ForceCommand exec "{forced}"\n'
    (folder / "server.conf").write_text(text, encoding="utf-8")
    for key in ("user", "stranger"):
        (folder / f"{key}.conf").write_text(_CLIENT.format(folder=folder, key=key), encoding="utf-8")
    log = folder / "log"
    process = subprocess.Popen([SERVER, "-D", "-E", log, "-f", folder / "server.conf"])
    client, stranger = (f"ssh -F '{folder}/{key}.conf'" for key in ("user", "stranger"))
    try:
        wait_until(lambda: _listens(process, port, log), 60, "the server listens")
        yield Sshd(f"ssh://{getpass.getuser()}@127.0.0.1:{port}", scratch, client, stranger, process)
    finally:
        process.terminate()
        process.wait()


def _make_key(file: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True, stdin=subprocess.DEVNULL)


def _listens(process: subprocess.Popen[bytes], port: int, log: Path) -> bool:
    assert process.poll() is None, log.read_text(encoding="utf-8") if log.exists() else "sshd ended"
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

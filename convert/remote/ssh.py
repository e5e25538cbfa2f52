"""Devices behind ssh: OpenSSH's own client, with the user's configuration and keys."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass

from convert.remote.devices import LOST, Transport, require_program

#: Another client, or options for it, in the way of ``GIT_SSH_COMMAND``.
VARIABLE = "CONVERT_SSH"
_CLIENT_FAILED = 255
_OPTIONS = (
    "-T",
    *("-o", "BatchMode=yes"),
    # Without banners and notices; what is said then is why it failed.
    *("-o", "LogLevel=ERROR"),
    *("-o", "ConnectTimeout=20"),
    # A line that is cut without a word must not be waited on for ever.
    *("-o", "ServerAliveInterval=10"),
    *("-o", "ServerAliveCountMax=3"),
)


@dataclass(frozen=True)
class Ssh(Transport):
    """``ssh://user@host:port``."""

    host: str
    port: int | None = None

    def command(self, script: str) -> list[str]:
        """See :meth:`Transport.command`."""
        words = shlex.split(os.environ.get(VARIABLE) or "ssh")
        require_program(words[0], self.name)
        port = () if self.port is None else ("-p", str(self.port))
        # Whatever shell the user has there, the script is for a plain one.
        return [*words, *_OPTIONS, *port, "--", self.host, f"exec sh -c {shlex.quote(script)}"]

    @property
    def scratch(self) -> str:
        """See :attr:`Transport.scratch`."""
        # For a device where nothing in /tmp may be run; mktemp makes a folder of its own in it.
        return "${TMPDIR:-/tmp}"

    def ended(self, code: int) -> str:
        """See :meth:`Transport.ended`."""
        return LOST if code == _CLIENT_FAILED else super().ended(code)

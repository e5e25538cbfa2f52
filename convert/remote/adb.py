"""Devices behind adb, by its command line."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from convert.remote.devices import Transport, require_program


@dataclass(frozen=True)
class Adb(Transport):
    """``adb:SERIAL``."""

    serial: str

    def command(self, script: str) -> list[str]:
        """See :meth:`Transport.command`; ``shell -T`` passes bytes both ways and gives back the exit code."""
        require_program("adb", self.name)
        return ["adb", "-s", self.serial, "shell", "-T", f"exec sh -c {shlex.quote(script)}"]

    @property
    def scratch(self) -> str:
        """See :attr:`Transport.scratch`."""
        return "/data/local/tmp"

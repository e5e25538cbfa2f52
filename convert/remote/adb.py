"""Devices behind adb, by its command line."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from convert.remote.devices import LOST, Transport, require_program

#: How the client ends when the device goes away while a program runs there: older ones give 0. The programs that are
#: started there end with neither, unless their input has ended.
_DEVICE_GONE = (0, 255)


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

    def ended(self, code: int) -> str:
        """See :meth:`Transport.ended`."""
        return LOST if code in _DEVICE_GONE else super().ended(code)

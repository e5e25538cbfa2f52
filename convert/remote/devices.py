"""Real devices: how they are named on the command line, and what is asked of them before anything is built."""

from __future__ import annotations

import re
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from convert.errors import InputError
from convert.platforms import named
from convert.records import Device
from convert.remote.place import signal_words

PROBE_SECONDS = 60.0
LOST = "was cut off: the connection is lost"
_FORMS = "write ssh://user@host, ssh://user@host:port or adb:SERIAL"
#: What is asked, in plain sh, since a device may have little more; of what it prints the first line counts.
_QUESTIONS = {
    "system": "uname -s -m",
    "android": "getprop ro.build.version.release",
    "cpu": r"sed -n 's/^\(model name\|Model\|Hardware\)[[:space:]]*: *//p' /proc/cpuinfo",
    "board": r"tr '\000' '\n' < /proc/device-tree/model",
    "governor": "cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "temperature": "cat /sys/class/thermal/thermal_zone0/temp",
}


@dataclass(frozen=True)
class Transport(ABC):
    """A way to run shell commands on one device.

    Attributes:
        name: the device as the user wrote it.
    """

    name: str

    @abstractmethod
    def command(self, script: str) -> list[str]:
        """The local command that runs the shell ``script`` there, with its standard streams."""

    @property
    @abstractmethod
    def scratch(self) -> str:
        """Folder there that everybody may write to."""

    def ended(self, code: int) -> str:
        """In words, what the exit code of :meth:`command` means; one below 0 is a signal to the local client."""
        if code < 0:
            return f"{LOST}, since the local client was ended by {signal_words(-code)}"
        return f"ended with exit code {code}"


def asked(transport: Transport, script: str, stdin: IO[bytes] | None = None, seconds: float = PROBE_SECONDS) -> str:
    """Run ``script`` on the device and give what it printed.

    Raises:
        InputError: it cannot be reached, or the script failed.
    """
    try:
        ended = subprocess.run(
            transport.command(script),
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            capture_output=True,
            check=False,
            timeout=seconds,
        )
    except FileNotFoundError as error:
        raise InputError(f"--device {transport.name} needs the program {error.filename}; install it") from None
    except subprocess.TimeoutExpired:
        raise InputError(
            f"--device {transport.name} did not answer within {seconds:g} s; check that it is on"
        ) from None
    if ended.returncode != 0:
        lines = [line.strip() for line in ended.stderr.decode(errors="replace").splitlines() if line.strip()]
        why = lines[-1] if lines else transport.ended(ended.returncode)
        raise InputError(f"--device {transport.name} cannot be used: {why[:300]}")
    return ended.stdout.decode(errors="replace")


def parse_device(text: str) -> Transport:
    """Read one ``--device``.

    Raises:
        InputError: it is of neither form.
    """
    from convert.remote.adb import Adb
    from convert.remote.ssh import Ssh

    # A host that begins with a dash would be an option of ssh.
    host = r"(?!-)[\w.-]+|\[[\da-fA-F:.]+(?:%[\w.-]+)?\]"
    ssh = re.fullmatch(rf"ssh://((?:(?!-)[\w.-]+@)?)({host})(?::(\d{{1,5}}))?/?", text)
    if ssh:
        # The brackets part an address from a port in a URL; the client takes the bare address.
        return Ssh(text, ssh[1] + ssh[2].strip("[]"), int(ssh[3]) if ssh[3] else None)
    adb = re.fullmatch(r"adb:(?!-)([\w.:-]+)", text)
    if adb:
        return Adb(text, adb[1])
    raise InputError(f"--device {text!r} is no device; {_FORMS}")


def parse_devices(texts: Sequence[str]) -> tuple[Transport, ...]:
    """Read every ``--device``; raises ``InputError``."""
    return tuple(parse_device(text) for text in dict.fromkeys(texts))


def look_at(transport: Transport) -> Device:
    """Ask the device what it is.

    Raises:
        InputError: it cannot be reached, or is no Linux.
    """
    script = "\n".join(f"echo '=={mark}'; {line} 2>/dev/null; echo" for mark, line in _QUESTIONS.items())
    answers = dict.fromkeys(_QUESTIONS, "")
    mark = ""
    for line in asked(transport, script).splitlines():
        if line.startswith("=="):
            mark = line[2:].strip()
        elif mark in answers and line.strip() and not answers[mark]:
            answers[mark] = line.strip()
    words = answers["system"].split()
    if len(words) != 2:
        raise InputError(f"--device {transport.name} does not say what it is: `uname -s -m` gave {answers['system']!r}")
    system = "android" if answers["android"] else words[0].lower()
    platform = named(system, words[1])
    degrees = answers["temperature"]
    return Device(
        transport.name,
        platform,
        answers["cpu"] or answers["board"],
        answers["governor"],
        # The kernel gives thousandths of a degree.
        int(degrees) / 1000 if degrees.lstrip("-").isdigit() else None,
    )


def require_program(name: str, transport: str) -> None:
    """Raise ``InputError`` where the local program ``name`` is missing."""
    if shutil.which(name) is None:
        raise InputError(f"--device {transport} needs the program {name}, which is not on the PATH; install it")

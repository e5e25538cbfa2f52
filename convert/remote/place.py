"""Where an artifact runs, when that is not this process: what must be there, and how the program is started."""

from __future__ import annotations

import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Program:
    """A program that speaks the frames of :mod:`convert.remote.frames`.

    Attributes:
        files: what must lie in the folder it is started in: name below it -> file or folder here. Of a folder only
            Python files are taken.
        words: the command, with names below that folder; ``{python}`` is the place's own Python.
        env: variables; ``{folder}`` in a value is the folder.
    """

    files: Mapping[str, Path]
    words: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


class Place(ABC):
    """One place that programs can be started in.

    Attributes:
        name: in words, for messages: ``emulation as cortex-a72``, ``ssh://pi@garden``.
        platform: what it is, as ``os/arch``.
    """

    name: str
    platform: str

    @abstractmethod
    def start(self, program: Program) -> subprocess.Popen[bytes]:
        """Put the files there and start ``program`` with pipes for its standard input and output.

        Raises:
            StageError: it cannot be started there.
        """

    def ended(self, code: int) -> str:
        """In words, what the exit code ``code`` of a program that was started here means."""
        return f"ended by {signal_words(-code)}" if code < 0 else f"ended with exit code {code}"

    def close(self) -> None:  # noqa: B027  (some places hold nothing)
        """Take away what was put there."""


_MEANINGS = {
    "SIGILL": "an illegal instruction: it needs a CPU feature that is not there",
    "SIGSEGV": "a segmentation fault",
    "SIGABRT": "an abort",
    "SIGBUS": "a bus error",
    "SIGFPE": "a floating point exception",
    "SIGKILL": "killed from outside, most often for lack of memory",
}


def signal_words(number: int) -> str:
    """``SIGILL (an illegal instruction: …)``."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    return f"{name} ({_MEANINGS[name]})" if name in _MEANINGS else name

"""The child process: read one job, run one stage, write one answer.

Whatever a toolkit does to its process (a segfault, ``sys.exit``, an endless loop) ends here, and the parent turns it
into one failed row. The answer is a file, not the exit code: a process that ends without one has failed.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from convert.errors import InputError, StageError
from convert.serial import read_json, to_plain, write_json

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_MOST_CHARACTERS = 500

STAGES: dict[str, str] = {
    "golden": "convert.stages.golden:run",
    "export": "convert.stages.export:run",
    "simplify": "convert.stages.export:simplify",
    "build": "convert.stages.build:run",
    "check": "convert.stages.check:run",
    "bench": "convert.stages.bench:run",
    "probe": "convert.stages.probe:run",
    "provider": "convert.stages.provider:run",
    "gate": "convert.stages.gate:run",
    "outputs": "convert.stages.outputs:run",
    "recipe": "convert.stages.recipe:run",
    "interface": "convert.stages.interface:run",
    "inspect": "convert.stages.inspect:run",
    "qat": "convert.stages.qat:run",
    "reference": "convert.stages.reference:run",
    "quality": "convert.stages.quality:run",
    "score": "convert.stages.score:run",
    "sensitivity": "convert.stages.sensitivity:run",
    "tune": "convert.stages.tune:run",
}


@dataclass(frozen=True)
class Job:
    """What a worker is asked to do.

    Attributes:
        stage: a key of ``STAGES``.
        args: plain JSON values, as the stage's own function reads them.
        answer: file that the answer is written to.
        parent: process to die with.
        borrow: folders to put last on the import path (packages of a second toolchain).
        events: file descriptor for progress lines; commands: one for what the parent asks meanwhile.
    """

    stage: str
    args: dict[str, Any]
    answer: str
    parent: int
    borrow: tuple[str, ...] = ()
    events: int | None = None
    commands: int | None = None


@dataclass(frozen=True)
class Answer:
    """How a job ended. ``error`` is empty when it worked, else ``input``, ``stage`` or ``crash``."""

    error: str = ""
    reason: str = ""
    advice: str = ""
    value: dict[str, Any] = field(default_factory=dict)


class Channel:
    """The worker's line to its parent: events out, commands in, one JSON object a line."""

    def __init__(self, events: int | None, commands: int | None) -> None:
        """Wrap the two inherited file descriptors; either may be missing."""
        self._events = None if events is None else os.fdopen(events, "w", encoding="utf-8")
        self._commands = None if commands is None else os.fdopen(commands, "r", encoding="utf-8")

    def say(self, text: str) -> None:
        """Tell the parent what is being done, for the progress line."""
        self.send({"progress": text})

    def send(self, event: dict[str, Any]) -> None:
        """Send one event."""
        if self._events is not None:
            self._events.write(json.dumps(event) + "\n")
            self._events.flush()

    def receive(self) -> dict[str, Any] | None:
        """Wait for the next command; None when the parent has closed the line."""
        line = self._commands.readline() if self._commands is not None else ""
        return dict(json.loads(line)) if line else None


def main(job_file: str) -> None:
    """Run the job in ``job_file`` and end the process."""
    job = read_json(Job, Path(job_file))
    _die_with(job.parent)
    sys.path.extend(job.borrow)
    answer = _run(job, Channel(job.events, job.commands))
    write_json(Path(job.answer), answer)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: toolkits crash or hang in their own exit handlers, and the answer is already written.
    os._exit(0)


def _run(job: Job, channel: Channel) -> Answer:
    try:
        module, _, name = STAGES[job.stage].partition(":")
        stage: Callable[[dict[str, Any], Channel], Any] = getattr(import_module(module), name)
        return Answer(value=to_plain(stage(job.args, channel)))
    except InputError as error:
        traceback.print_exc()
        return Answer("input", str(error))
    except StageError as error:
        traceback.print_exc()
        return Answer("stage", error.reason, error.advice)
    except SystemExit as error:
        traceback.print_exc()
        return Answer("crash", f"the toolkit called sys.exit({error.code!r})")
    except BaseException as error:  # the process is about to end, so nothing may pass unseen
        traceback.print_exc()
        return Answer("crash", _one_line(error))


def _one_line(error: BaseException) -> str:
    """The error and, where exporters wrap it in one of their own, the error at its root."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    text = _first_line(error)
    if root is not error and _first_line(root) not in text:
        text = f"{text} (because of {_first_line(root)})"
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 3] + "..."


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in _ANSI.sub("", str(error)).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}"[:250] if lines else type(error).__name__


def _die_with(parent: int) -> None:
    """Ask Linux to kill this process when its parent goes, so that a killed run leaves nothing behind."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

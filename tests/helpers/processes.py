"""Which processes are there, and waiting for something to happen."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil

_STEP_SECONDS = 0.02


def wait_until(true: Callable[[], bool], seconds: float, what: str) -> None:
    """Come back as soon as ``true`` holds; fails with ``what`` if it does not within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(_STEP_SECONDS)


def gone(pid: int) -> bool:
    """Whether the process ``pid`` has ended (one that nobody has waited for yet has)."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def running_below(folder: Path) -> list[str]:
    """Command lines of the processes that have something to do with ``folder``.

    A worker has it in its arguments; whatever a worker starts has it in its working folder or in ``TMPDIR``.
    """
    found = []
    for process in psutil.process_iter():
        try:
            arguments = process.cmdline()
            traces = (*arguments, process.cwd(), process.environ().get("TMPDIR", ""))
            if process.status() != psutil.STATUS_ZOMBIE and any(str(folder) in trace for trace in traces):
                found.append(" ".join(arguments))
        except psutil.Error:
            continue  # it ended meanwhile, or is another user's
    return found

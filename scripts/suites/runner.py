"""Run many items in child processes that may crash, hang or call ``sys.exit``: each is one result, never the end.

Items of one phase share a process, since toolkits take seconds to load; when it dies or an item takes too long, that
item has crashed and the next one gets a new process.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_WORKER = Path(__file__).resolve().parent / "worker.py"
#: As this program was started: tests change their own environment while these children run beside them.
_ENVIRONMENT = dict(os.environ)
KINDS = ("passed", "wrong", "refused", "crashed")


@dataclass(frozen=True)
class Result:
    """How one item ended.

    Attributes:
        kind: one of ``KINDS``.
        stage: the phase that decided it, or a finer word for it.
        reason: what was seen; empty for one that passed.
    """

    kind: str
    stage: str
    reason: str = ""


@dataclass(frozen=True)
class Step:
    """A phase to be run: its name, the interpreter, and the function ``module:name`` or ``file.py:name`` to call."""

    name: str
    python: Path
    function: str


class Child:
    """One child process and the pipes to it."""

    def __init__(self, step: Step, cwd: Path) -> None:
        """Start it; its own output goes to ``cwd/log``."""
        self._read, write = os.pipe()
        module, _, function = step.function.rpartition(":")
        # Another environment's path would bring its packages into this one.
        variables = {key: value for key, value in _ENVIRONMENT.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
        variables |= {"TF_CPP_MIN_LOG_LEVEL": "2", "TQDM_DISABLE": "1", "PYTHONNOUSERSITE": "1", "TMPDIR": str(cwd)}
        with (cwd / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(step.python), "-P", "-u", str(_WORKER), str(write), module, function],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=variables,
                pass_fds=(write,),
                start_new_session=True,
            )
        os.close(write)
        self._buffer = b""

    def ask(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """The answer to ``request``; ``{"crashed": why}`` when the process died or took longer than ``seconds``."""
        assert self._process.stdin is not None  # noqa: S101  (PIPE was asked for)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(dict(request)).encode() + b"\n")
            self._process.stdin.flush()
        end = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                self.end()
                return {"crashed": f"took longer than {seconds:g} s"}
            chunk = os.read(self._read, 65536)
            if not chunk:
                return {"crashed": self._death()}
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return dict(json.loads(line))

    def _death(self) -> str:
        code = self._process.wait()
        self.end()
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def end(self) -> None:
        """Kill the process and all that it started, and give back the pipes."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        with contextlib.suppress(OSError):
            os.close(self._read)


def run_step(
    step: Step, requests: Mapping[str, Mapping[str, Any]], cwd: Path, seconds: float, say: Callable[[str], None]
) -> dict[str, Result | None]:
    """Put every item through one phase.

    Args:
        step: which.
        requests: item -> what the function is called with.
        cwd: working folder of the children.
        seconds: limit for one item; the first one of a process also pays for loading the toolkit.
        say: told the name of the phase after every item.

    Returns:
        Item -> its result, None for one that goes on to the next phase.
    """
    child: Child | None = None
    results: dict[str, Result | None] = {}
    try:
        for item, request in requests.items():
            child = child or Child(step, cwd)
            answer = child.ask(request, seconds)
            results[item] = _result(step.name, answer)
            if "crashed" in answer:
                child = None
            say(step.name)
    finally:
        if child is not None:
            child.end()
    return results


def _result(stage: str, answer: Mapping[str, Any]) -> Result | None:
    for kind in ("refused", "crashed"):
        if kind in answer:
            return Result(kind, stage, answer[kind])
    value = answer["value"]
    return None if value is None else Result(value["kind"], stage, value["reason"])


def run_steps(
    steps: Sequence[Step],
    requests: Mapping[str, Mapping[str, Any]],
    cwd: Path,
    seconds: float,
    say: Callable[[str], None] = lambda phase: None,
) -> dict[str, Result]:
    """Put items through several phases; one that has a result leaves early.

    Args:
        steps: the phases.
        requests: item -> what every phase is called with.
        cwd: working folder of the children.
        seconds: limit for one item in one phase.
        say: told the name of the phase after every item.

    Returns:
        The results of those items that have one; after the last phase all of them should.
    """
    ended: dict[str, Result] = {}
    for step in steps:
        going = {item: request for item, request in requests.items() if item not in ended}
        found = run_step(step, going, cwd, seconds, say)
        ended |= {item: result for item, result in found.items() if result is not None}
    return ended


def count(results: Mapping[str, Result]) -> dict[str, int]:
    """How many items ended in each way, all of ``KINDS`` included."""
    found = Counter(result.kind for result in results.values())
    unknown = set(found) - set(KINDS)
    if unknown:
        raise ValueError(f"there is no such result as {sorted(unknown)[0]!r}")
    return {kind: found[kind] for kind in KINDS}

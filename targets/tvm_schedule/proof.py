"""What a schedule must pass before it is used: its kernel and the one without it are run on the same random data.

Both run in a process of their own (``proof_child.py``): a kernel that crashes, or never ends, costs itself only.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import convert

#: The program that is asked; ``_bootstrap.py`` makes the package importable under any Python.
CHILD = (str(Path(convert.__file__).with_name("_bootstrap.py")),)
MODULE = "convert.targets.tvm_schedule.proof_child"
#: For one kernel; those that are small enough to be compared take much less.
SECONDS = 600.0
#: One thread, where no more are asked for; threads that wait do not spin, since there may be more of them than cores.
_THREADS = {"TVM_NUM_THREADS": "1", "TVM_THREAD_POOL_SPIN_COUNT": "0"}


@dataclass(frozen=True)
class Trial:
    """A kernel, and the same with a schedule: as a ``PrimFunc`` (``after``), or as a trace that is applied to it."""

    before: Any
    after: Any = None
    trace: Any = None


@dataclass(frozen=True)
class Verdict:
    """What became of a schedule.

    Attributes:
        reason: why it may not be used; empty where it may.
        share: its largest error as a share of what another order of sums explains; None where it was not run.
        after: the ``PrimFunc`` with its schedule, where a trace was given and may be used.
    """

    reason: str = ""
    share: float | None = None
    after: Any = None


def verdicts(trials: Mapping[str, Trial], target: Any) -> dict[str, Verdict]:
    """The verdict on each, by the same names: run on this machine, whatever the ``target`` of the schedules is."""
    found: dict[str, Verdict] = {}
    left, together = list(trials), True
    with tempfile.TemporaryDirectory() as folder:
        jobs = Path(folder) / "jobs.json"
        while left:
            asked = _jobs(trials, left, target) | {"together": together}
            jobs.write_text(json.dumps(asked), encoding="utf-8")
            answers = dict(_answers(jobs))
            found |= answers
            if not answers and together:  # it may have ended while it built all of them
                together = False
                continue
            rest = [name for name in left if name not in found]
            if rest:  # they come in order: the process ended on the first of them
                found[rest[0]] = Verdict("the process that ran it ended, or took too long")
            left = rest[1:]
    return found


def _jobs(trials: Mapping[str, Trial], names: Sequence[str], target: Any) -> dict[str, Any]:
    import tvm

    def plain(function: Any) -> str:
        return "" if function is None else str(tvm.ir.save_json(function))

    kernels = [
        {"name": name, "before": plain(one.before), "after": plain(one.after), "trace": one.trace}
        for name, one in ((name, trials[name]) for name in names)
    ]
    return {"target": str(tvm.ir.save_json(target)), "kernels": kernels}


def _answers(jobs: Path) -> Iterator[tuple[str, Verdict]]:
    import tvm

    words = [sys.executable, "-P", "-u", *CHILD, str(jobs), MODULE]
    env = dict(os.environ) | _THREADS
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=env)
    try:
        for line in _lines(process):
            said = json.loads(line)
            after = tvm.ir.load_json(said["after"]) if said["after"] else None
            yield said["name"], Verdict(said["reason"], said["share"], after)
    finally:
        process.kill()
        process.wait()


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    """Whole lines of JSON that the process says, as long as each comes in time."""
    said: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        assert process.stdout is not None  # noqa: S101  (PIPE was asked for)
        for line in process.stdout:
            said.put(line)
        said.put("")

    threading.Thread(target=listen, daemon=True).start()
    while True:
        try:
            line = said.get(timeout=SECONDS)
        except queue.Empty:
            return
        if not line.endswith("\n"):
            return
        if line.startswith("{"):
            yield line

"""Whether a kernel with a schedule computes what it computes without: both are run on random data and compared.

A schedule is applied, compiled and run in a process of its own (``check_child.py``), so that one that crashes costs
itself only.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convert.targets.tvm_tuning.identity import settings_of

_CHILD = Path(__file__).with_name("check_child.py")
_SECONDS = 120.0


@dataclass(frozen=True)
class Candidate:
    """A kernel alone, and the trace of a schedule for it."""

    key: str
    module: Any
    trace: Any


@dataclass(frozen=True)
class Verdict:
    """What became of a candidate.

    Attributes:
        module: the kernel with its schedule; None where it may not be used.
        reason: why not.
        error: its largest error as a share of what reassociation allows; None where it was not run.
    """

    module: Any = None
    reason: str = ""
    error: float | None = None


def check(candidates: Sequence[Candidate], target: Any) -> dict[str, Verdict]:
    """The verdict on each candidate by its key; ``target`` is what the schedules are for."""
    found: dict[str, Verdict] = {}
    with tempfile.TemporaryDirectory() as folder:
        jobs = Path(folder) / "jobs.json"
        left = list(candidates)
        while left:
            jobs.write_text(json.dumps(_jobs(left, target)), encoding="utf-8")
            for key, verdict in _run(jobs):
                found[key] = verdict
            rest = [one for one in left if one.key not in found]
            if rest:  # the process ended on the first of them
                found[rest[0].key] = Verdict(reason="the process that ran it ended, or took too long")
            left = rest[1:]
    return found


def _jobs(candidates: Sequence[Candidate], target: Any) -> dict[str, Any]:
    import tvm

    kernels = [{"key": one.key, "module": tvm.ir.save_json(one.module), "trace": one.trace} for one in candidates]
    return {"target": settings_of(target), "kernels": kernels}


def _run(jobs: Path) -> Iterator[tuple[str, Verdict]]:
    import tvm

    # With several threads a race on writes has a chance to show.
    env = dict(os.environ) | {"TVM_NUM_THREADS": str(max(2, min(4, os.cpu_count() or 2)))}
    words = [sys.executable, "-P", "-u", str(_CHILD), str(jobs)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=env)
    try:
        for line in _lines(process):
            said = json.loads(line)
            module = tvm.ir.load_json(said["module"]) if said.get("module") else None
            yield said["key"], Verdict(module, said.get("reason", ""), said.get("error"))
    finally:
        process.kill()
        process.wait()


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    """Whole lines of what the child says, as long as each comes in time."""
    said: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        assert process.stdout is not None  # noqa: S101  (PIPE was asked for)
        for line in process.stdout:
            said.put(line)
        said.put("")

    threading.Thread(target=listen, daemon=True).start()
    while True:
        try:
            line = said.get(timeout=_SECONDS)
        except queue.Empty:
            return
        if not line.endswith("\n"):
            return
        if line.startswith("{"):
            yield line

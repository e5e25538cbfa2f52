"""Jobs for workers, real ones and fakes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from convert.jobs import Ended, Limits, Runner, WorkerPython
from convert.records import Kind, ModelRef
from convert.serial import to_plain
from helpers.fakes import python_python, shell_python

#: The worker as it is, in the environment of the tests.
REAL = WorkerPython(Path(sys.executable), own_environment=False)


def make_runner(folder: Path, limits: Limits) -> Runner:
    """A runner with its work and logs in ``folder``."""
    (folder / "logs").mkdir()
    return Runner(folder / "jobs", folder / "logs", limits)


def run_shell(runner: Runner, folder: Path, script: str) -> Ended:
    """Run a job whose interpreter is a shell script."""
    return runner.run("fake", WorkerPython(shell_python(folder / "fake", script)), "build", {})


def run_python(runner: Runner, folder: Path, code: str, say: Callable[[str], None] | None = None) -> Ended:
    """Run a job whose interpreter is a script in Python (see :func:`helpers.fakes.python_python`)."""
    return runner.run("fake", WorkerPython(python_python(folder / "fake", code)), "build", {"a": 1}, say)


def run_factory(runner: Runner, folder: Path, body: str) -> Ended:
    """Run the real worker on a model whose factory is ``body``."""
    file = folder / "net.py"
    file.write_text(f"import os, sys, time\ndef make():\n    {body}\n", encoding="utf-8")
    return runner.run("source", REAL, "golden", golden_args(file))


def golden_args(file: Path) -> dict[str, Any]:
    """What the golden stage is asked for the factory ``make`` in ``file``."""
    ref = ModelRef(str(file), Kind.FACTORY, "make")
    return {"ref": to_plain(ref), "inputs": [], "dims": [], "samples": None, "folder": str(file.parent), "half": False}

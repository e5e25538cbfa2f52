"""What the steps of one run share: options, folders, workers and toolchains."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from convert.errors import InputError
from convert.jobs import Ended, Runner, Worker, WorkerPython
from convert.options import Options
from convert.records import Quantization
from convert.serial import to_plain
from convert.targets.base import Target
from convert.toolchains import Environment, find, install_command

Say = Callable[[str], None]


class ToolchainMissing(Exception):
    """A toolchain is not installed; the text says how to get it."""


@dataclass
class Context:
    """One run.

    Attributes:
        folder: the output folder in the making.
        work: what is thrown away at the end.
        golden_folder: the cases.
        seconds: wall time per step.
        worker_seconds: per stage, the summed life of its workers, from start to end of the process.
        reference: where the outputs of the source on real data lie, once they were made; ``once`` guards the making.
    """

    options: Options
    folder: Path
    runner: Runner
    seconds: dict[str, float] = field(default_factory=dict)
    worker_seconds: dict[str, float] = field(default_factory=dict)
    used: dict[str, Environment] = field(default_factory=dict)
    reference: dict[str, Any] | None = None
    once: threading.Lock = field(default_factory=threading.Lock)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def work(self) -> Path:
        """Folder for everything that is thrown away at the end."""
        return self.folder / "work"

    @property
    def quantization(self) -> Quantization:
        """What was asked for integer artifacts, with the place of the data once they have been stored."""
        asked = self.options.quantization
        if not self.stored_data.is_dir():
            return asked
        from convert.quantize.spool import is_spool  # numpy, which this process needs for nothing else

        return replace(asked, stored=str(self.stored_data)) if is_spool(self.stored_data) else asked

    @property
    def stored_data(self) -> Path:
        """Folder for calibration data that only the user's code or torch can read."""
        return self.work / "calibration"

    @property
    def golden_folder(self) -> Path:
        """Folder of the cases, which stays."""
        return self.folder / "golden"

    def python(self, toolchain: str, borrows: str | None = None) -> WorkerPython:
        """The interpreter of ``toolchain``; raises :class:`ToolchainMissing` when it is not installed."""
        environment = self._environment(toolchain)
        borrow = () if borrows is None else (str(self._environment(borrows).site_packages),)
        return WorkerPython(environment.python, borrow, own_environment=environment.origin != "current")

    def _environment(self, name: str) -> Environment:
        environment = find(name)
        if environment is None:
            raise ToolchainMissing(f"the toolchain {name} is not installed; get it with `{install_command(name)}`")
        with self._lock:
            self.used[name] = environment
        return environment

    def runtime(self, target: Target) -> WorkerPython:
        """The interpreter that runs the artifacts of ``target``."""
        return self.python(target.runtime_toolchain, target.runtime_borrows)

    def core(self) -> WorkerPython:
        """The interpreter that loads models; raises ``InputError``, since nothing works without it."""
        try:
            return self.python("core")
        except ToolchainMissing as error:
            raise InputError(str(error)) from None

    def run(
        self,
        name: str,
        python: WorkerPython,
        stage: str,
        args: dict[str, Any],
        say: Say | None = None,
        seconds: float | None = None,
    ) -> Ended:
        """Run one stage in a worker and count its time; ``seconds`` takes the place of ``--timeout``."""
        threads = self.options.threads if stage == "check" else None
        ended = self.runner.run(name, python, stage, to_plain(args), say, threads, seconds)
        with self._lock:
            self.worker_seconds[stage] = self.worker_seconds.get(stage, 0.0) + ended.seconds
        return ended

    def start(self, name: str, python: WorkerPython, stage: str, args: dict[str, Any]) -> Worker:
        """Start a worker that takes commands, with the threads of the benchmark."""
        return self.runner.start(name, python, stage, to_plain(args), threads=self.options.threads, commands=True)

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Record the wall time of a step."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[step] = round(time.monotonic() - start, 3)

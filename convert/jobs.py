"""The parent's side of a worker: start it, watch its time and memory, read its answer, leave nothing running."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from convert.logs import CappedLog, tail
from convert.serial import read_json, write_json
from convert.worker import Answer, Job

_BOOTSTRAP = Path(__file__).resolve().parent / "_bootstrap.py"
_POLL_SECONDS = 0.1
_GRACE_SECONDS = 2.0
_LEAST_FREE = 1 << 16
_SIGNAL_WORDS = {
    "SIGSEGV": "a segmentation fault",
    "SIGABRT": "an abort",
    "SIGFPE": "a floating point exception",
    "SIGILL": "an illegal instruction",
    "SIGBUS": "a bus error",
    "SIGKILL": "killed from outside, most often by the system for lack of memory",
}


class Interrupted(Exception):
    """The run was stopped; the workers are gone."""


def has_space(folder: Path) -> bool:
    """Whether ``folder`` is on a disk with room for another small file; without it workers end in odd ways."""
    try:
        return shutil.disk_usage(folder).free >= _LEAST_FREE
    except OSError:
        return True  # it is gone, or cannot be asked: then that is no explanation


class CannotWrite(Exception):
    """The files that a worker needs could not be written, most often since the disk is full."""


@dataclass(frozen=True)
class Limits:
    """What a worker may use: seconds of wall time, and bytes of resident memory of it and its children (None: all)."""

    seconds: float
    memory: int | None = None


@dataclass(frozen=True)
class WorkerPython:
    """The interpreter of a toolchain and the folders that it borrows from another one."""

    python: Path
    borrow: tuple[str, ...] = ()
    own_environment: bool = True


@dataclass(frozen=True)
class Ended:
    """A worker that is over: its answer, how long it took and where its log is."""

    answer: Answer
    seconds: float
    log: Path

    @property
    def ok(self) -> bool:
        """Whether the stage itself said that it worked."""
        return not self.answer.error

    @property
    def value(self) -> dict[str, Any]:
        """What the stage returned, as plain JSON values."""
        return self.answer.value


class Worker:
    """One running child process, in a session of its own so that its children can be ended with it."""

    def __init__(
        self,
        job_folder: Path,
        log: Path,
        python: WorkerPython,
        stage: str,
        args: dict[str, Any],
        limits: Limits,
        threads: int | None = None,
        commands: bool = False,
    ) -> None:
        """Start ``stage`` with ``args``; ``commands`` opens a line for :meth:`send`."""
        self._answer = job_folder / "answer.json"
        self.log = log
        self._limits = limits
        self._started = time.monotonic()
        self._killed_for = ""
        self._listened = False
        events_read, events_write = os.pipe()
        commands_read, commands_write = os.pipe() if commands else (None, None)
        job = Job(stage, args, str(self._answer), os.getpid(), python.borrow, events_write, commands_read)
        inherited = [fd for fd in (events_write, commands_read) if fd is not None]
        try:
            scratch = _prepared(job_folder, job)
            self._process = subprocess.Popen(
                [str(python.python), "-P", "-u", str(_BOOTSTRAP), str(job_folder / "job.json")],
                cwd=scratch,
                env=_environment(python, scratch, threads),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=inherited,
            )
        except (OSError, CannotWrite):
            for fd in (events_read, commands_write):
                if fd is not None:
                    os.close(fd)
            raise
        finally:
            for fd in inherited:
                os.close(fd)
        self._events = os.fdopen(events_read, "r", encoding="utf-8", errors="replace")
        self._commands = None if commands_write is None else os.fdopen(commands_write, "w", encoding="utf-8")
        assert self._process.stdout is not None  # noqa: S101  (PIPE was asked for)
        self._copier = CappedLog(self._process.stdout, log)

    def events(self, heard: Callable[[dict[str, Any]], None]) -> None:
        """Call ``heard`` for every event until the worker closes its line; meant for a thread of its own."""
        self._listened = True
        with contextlib.suppress(ValueError, OSError), self._events:
            for line in self._events:
                with contextlib.suppress(json.JSONDecodeError):
                    event = json.loads(line)
                    if isinstance(event, dict):
                        heard(event)

    def send(self, command: dict[str, Any]) -> None:
        """Send one command; a worker that is gone is noticed by :meth:`wait`, not here."""
        if self._commands is not None:
            with contextlib.suppress(OSError, ValueError):
                self._commands.write(json.dumps(command) + "\n")
                self._commands.flush()

    def close_commands(self) -> None:
        """Tell the worker that there will be no more commands."""
        if self._commands is not None:
            with contextlib.suppress(OSError):
                self._commands.close()

    def running(self) -> bool:
        """Whether the process is alive; ends it when it is over one of its limits."""
        if self._process.poll() is not None:
            return False
        if time.monotonic() - self._started > self._limits.seconds:
            self.kill(f"it took longer than the limit of {self._limits.seconds:g} s (--timeout)")
        elif self._limits.memory is not None and _resident_bytes(self._process.pid) > self._limits.memory:
            self.kill(f"it used more than the limit of {self._limits.memory / 2**30:.3g} GiB (--memory)")
        return self._process.poll() is None

    def kill(self, why: str) -> None:
        """End the process and its children, first politely."""
        self._killed_for = self._killed_for or why
        # A child may have made a session of its own, which the signal to the group does not reach.
        family = _family(self._process.pid)
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_SECONDS)
        for member in family:
            with contextlib.suppress(psutil.Error):
                member.kill()

    def wait(self, stop: threading.Event) -> Ended:
        """Wait for the end and give the answer; raises :class:`Interrupted` when ``stop`` is set meanwhile."""
        while self.running():
            if stop.wait(_POLL_SECONDS):
                self.kill("the run was interrupted")
        seconds = time.monotonic() - self._started
        # Children that outlived the worker must not outlive the job.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._copier.finish()
        self.close_commands()
        if not self._listened:
            self._events.close()
        if stop.is_set():
            raise Interrupted
        return Ended(self._read_answer(), seconds, self.log)

    def _read_answer(self) -> Answer:
        answer = self._whatever_it_left()
        if answer.error == "crash" and not has_space(self._answer.parent):
            return replace(answer, reason=f"{answer.reason} (there is no space left for the files of the run)")
        return answer

    def _whatever_it_left(self) -> Answer:
        if self._killed_for:
            return Answer("crash", f"stopped: {self._killed_for}{_last_lines(self.log)}")
        code = self._process.returncode
        if code == 0 and self._answer.is_file():
            try:
                return read_json(Answer, self._answer)
            except (ValueError, TypeError):
                return Answer("crash", f"left an answer that cannot be read{_last_lines(self.log)}")
        if code < 0:
            return Answer("crash", f"ended by {_signal_words(-code)}{_last_lines(self.log)}")
        return Answer("crash", f"ended with exit code {code} and no answer{_last_lines(self.log)}")


class Runner:
    """Starts the workers of one run and can end them all.

    Attributes:
        stop: set once the run is to end; every waiting thread then raises :class:`Interrupted`.
    """

    def __init__(self, work: Path, logs: Path, limits: Limits) -> None:
        """``work`` takes a folder per job, ``logs`` a file per job."""
        self.stop = threading.Event()
        self._work = work
        self._logs = logs
        self._limits = limits
        self._live: set[Worker] = set()
        self._lock = threading.Lock()
        self._count = 0

    def start(
        self,
        name: str,
        python: WorkerPython,
        stage: str,
        args: dict[str, Any],
        *,
        threads: int | None = None,
        commands: bool = False,
        seconds: float | None = None,
    ) -> Worker:
        """Start a worker; ``name`` becomes the name of its log, and ``seconds`` is a limit of its own."""
        with self._lock:
            if self.stop.is_set():
                raise Interrupted
            self._count += 1
            safe = f"{self._count:02d}-{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}"
            # One that takes commands lives as long as it is asked things; each answer has its own limit.
            own = float("inf") if commands else seconds
            limits = self._limits if own is None else replace(self._limits, seconds=own)
            worker = Worker(
                self._work / safe, self._logs / f"{safe}.log", python, stage, args, limits, threads, commands
            )
            self._live.add(worker)
            return worker

    def finish(self, worker: Worker) -> Ended:
        """Wait for a worker that :meth:`start` gave."""
        try:
            return worker.wait(self.stop)
        finally:
            with self._lock:
                self._live.discard(worker)

    def run(
        self,
        name: str,
        python: WorkerPython,
        stage: str,
        args: dict[str, Any],
        say: Callable[[str], None] | None = None,
        threads: int | None = None,
        seconds: float | None = None,
    ) -> Ended:
        """Start a worker, pass its progress on to ``say``, and wait for its end."""
        try:
            worker = self.start(name, python, stage, args, threads=threads, seconds=seconds)
        except CannotWrite as error:
            return Ended(Answer("crash", str(error)), 0.0, self._logs / "none.log")
        except OSError as error:
            reason = f"the interpreter {python.python} cannot be started ({error.strerror or error})"
            return Ended(Answer("crash", reason), 0.0, self._logs / "none.log")

        def heard(event: dict[str, Any]) -> None:
            if say is not None and "progress" in event:
                say(str(event["progress"]))

        listener = threading.Thread(target=worker.events, args=(heard,), daemon=True)
        listener.start()
        ended = self.finish(worker)
        listener.join(_GRACE_SECONDS)
        return ended

    def raise_if_stopped(self) -> None:
        """Raise :class:`Interrupted` once the run is to end."""
        if self.stop.is_set():
            raise Interrupted

    def relative_log(self, log: Path) -> str:
        """A log's path below the output folder, with forward slashes; empty for one that was never written."""
        return log.relative_to(self._logs.parent).as_posix() if log.is_file() else ""

    def interrupt(self) -> None:
        """End every worker; safe to call more than once."""
        self.stop.set()
        with self._lock:
            live = list(self._live)
        for worker in live:
            worker.kill("the run was interrupted")


def _prepared(folder: Path, job: Job) -> Path:
    """Write what a worker reads into ``folder``, and give the folder that it runs in."""
    scratch = folder / "cwd"
    try:
        folder.mkdir(parents=True)
        write_json(folder / "job.json", job)
        scratch.mkdir()
    except OSError as error:
        raise CannotWrite(f"the files of the run cannot be written ({error.strerror or error})") from error
    return scratch


def _environment(python: WorkerPython, scratch: Path, threads: int | None) -> dict[str, str]:
    env = dict(os.environ)
    if python.own_environment:
        # Another environment's path would bring its packages into this one.
        for name in ("PYTHONPATH", "PYTHONHOME"):
            env.pop(name, None)
    env |= {
        "TMPDIR": str(scratch),
        "PYTHONUNBUFFERED": "1",
        "PYTHONNOUSERSITE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TQDM_DISABLE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONIOENCODING": "utf-8",
    }
    # Since 1.29 onnxruntime sends names and hashes of models to its maker, and keeps a device id in the cache folder.
    env.setdefault("ORT_DISABLE_TELEMETRY", "1")
    if threads is not None:
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TVM_NUM_THREADS"):
            env[name] = str(threads)
    return env


def _signal_words(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:  # one without a name, such as a real-time signal
        return f"signal {number}"
    return f"{name} ({_SIGNAL_WORDS.get(name, 'a signal')})"


def _family(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return list(psutil.Process(pid).children(recursive=True))
    return []


def _resident_bytes(pid: int) -> int:
    total = 0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += member.memory_info().rss
    return total


def _last_lines(log: Path) -> str:
    lines = tail(log, 3)
    return f"; last lines of its log: {' | '.join(lines)}" if lines else ""

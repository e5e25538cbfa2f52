"""The real worker, ends of whole runs, and workers that take commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers.command import ROOT, importing
from helpers.fakes import python_python, shell_python
from helpers.jobs import REAL, golden_args, make_runner, run_factory, run_shell
from helpers.processes import gone, running_below, wait_until

from convert.jobs import Ended, Interrupted, Limits, Runner, WorkerPython
from convert.serial import write_json
from convert.worker import Answer, Job

# The real worker.


def test_the_real_worker_answers_and_says_what_it_does(runner: Runner) -> None:
    said: list[str] = []
    ended = runner.run("probe", REAL, "probe", {"target": "onnx"}, said.append)
    assert ended.answer == Answer(value={"reason": ""})
    assert said == ["looking for the device"]


@pytest.mark.parametrize(
    ("body", "error", "reason"),
    [
        ("sys.exit(0)", "crash", "the toolkit called sys.exit(0)"),
        ("os._exit(0)", "crash", "ended with exit code 0 and no answer"),
        ("os._exit(7)", "crash", "ended with exit code 7 and no answer"),
        ("os.abort()", "crash", "ended by SIGABRT (an abort)"),
        ("__import__('ctypes').string_at(0)", "crash", "ended by SIGSEGV (a segmentation fault)"),
        ("raise KeyboardInterrupt", "crash", "KeyboardInterrupt"),
        ("raise ValueError('no\\nlines')", "input", "make of {file} failed when called without arguments: "),
    ],
)
def test_what_a_factory_can_do_to_the_real_worker(
    runner: Runner, tmp_path: Path, body: str, error: str, reason: str
) -> None:
    ended = run_factory(runner, tmp_path, body)
    assert ended.answer.error == error
    assert ended.answer.reason.startswith(reason.format(file=tmp_path / "net.py"))
    assert "\n" not in ended.answer.reason


def test_a_thread_that_a_toolkit_left_does_not_hold_the_worker(runner: Runner, tmp_path: Path) -> None:
    body = "import atexit, threading; threading.Thread(target=time.sleep, args=(1000,)).start(); "
    body += "atexit.register(time.sleep, 1000); return None / 0"
    ended = run_factory(runner, tmp_path, body)
    assert ended.answer.error == "input"
    assert ended.seconds < 20


def test_an_unknown_stage_is_a_crash(runner: Runner) -> None:
    assert runner.run("x", REAL, "no-such-stage", {}).answer == Answer("crash", "KeyError: 'no-such-stage'")


def test_a_worker_that_finds_another_parent_ends_at_once(tmp_path: Path) -> None:
    job = Job("probe", {"target": "onnx"}, str(tmp_path / "answer.json"), os.getppid())
    write_json(tmp_path / "job.json", job)
    command = [sys.executable, "-P", str(ROOT / "convert/_bootstrap.py"), str(tmp_path / "job.json")]
    assert subprocess.run(command, check=False).returncode == 1
    assert not (tmp_path / "answer.json").exists()


def test_a_worker_dies_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    started = tmp_path / "started"
    net = tmp_path / "net.py"
    net.write_text(
        f"import os, pathlib, time\ndef make():\n    pathlib.Path({str(started)!r}).write_text(str(os.getpid()))\n"
        "    time.sleep(1000)\n",
        encoding="utf-8",
    )
    code = (
        "import json, pathlib, sys\nfrom convert.jobs import Limits, Runner, WorkerPython\n"
        "folder, args = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])\n"
        "runner = Runner(folder / 'jobs', folder / 'logs', Limits(600))\n"
        "runner.run('sleeper', WorkerPython(pathlib.Path(sys.executable), (), False), 'golden', args)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path), json.dumps(golden_args(net))]
    with subprocess.Popen(command, env=importing()) as parent:
        wait_until(lambda: started.is_file() and started.read_text() != "", 30, "the worker runs")
        worker = int(started.read_text())
        assert psutil.Process(worker).ppid() == parent.pid
        parent.kill()
    wait_until(lambda: gone(worker), 5, "the worker is gone")
    wait_until(lambda: running_below(tmp_path) == [], 2, "no process is left")


# Stopping a run.


def test_an_interruption_ends_every_worker(runner: Runner, tmp_path: Path) -> None:
    scripts = ["sleep 1000", "trap '' TERM; sleep 1000 & sleep 1000", "sleep 1000 & wait"]
    ends: list[BaseException | Ended] = []

    def run(place: int) -> None:
        try:
            python = shell_python(tmp_path / f"fake{place}", f"touch started; {scripts[place]}")
            ends.append(runner.run(f"fake{place}", WorkerPython(python), "build", {}))
        except BaseException as error:
            ends.append(error)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len([*tmp_path.glob("jobs/*/cwd/started")]) == 3, 10, "all three run")
    start = time.monotonic()
    runner.interrupt()
    for thread in threads:
        thread.join(10)
    assert time.monotonic() - start < 8
    assert [type(end) for end in ends] == [Interrupted] * 3
    assert running_below(tmp_path) == []


def test_nothing_starts_after_an_interruption(runner: Runner, tmp_path: Path) -> None:
    runner.interrupt()
    with pytest.raises(Interrupted):
        run_shell(runner, tmp_path, "touch started")
    with pytest.raises(Interrupted):
        runner.raise_if_stopped()
    assert not (tmp_path / "jobs").exists()
    runner.interrupt()


# Workers that take commands.


def _last_is(heard: list[dict[str, Any]], event: dict[str, Any]) -> bool:
    return bool(heard) and heard[-1] == event


def test_a_conversation_with_a_worker(tmp_path: Path) -> None:
    runner = make_runner(tmp_path, Limits(0.5))  # a worker that takes commands lives as long as it is asked things
    code = (
        "events, commands = os.fdopen(job['events'], 'w'), os.fdopen(job['commands'])\n"
        "count = 0\n"
        "for line in commands:\n    count += 1\n"
        "    print(json.dumps({'got': json.loads(line)['runs'] + 1}), file=events, flush=True)\n"
        "answer(value={'count': count})"
    )
    heard: list[dict[str, Any]] = []
    worker = runner.start("talker", WorkerPython(python_python(tmp_path / "fake", code)), "bench", {}, commands=True)
    listener = threading.Thread(target=worker.events, args=(heard.append,))
    listener.start()
    for runs in (1, 5):
        worker.send({"runs": runs})
        wait_until(partial(_last_is, heard, {"got": runs + 1}), 10, "an answer")
        time.sleep(0.4)
    assert worker.running()
    worker.close_commands()
    ended = runner.finish(worker)
    listener.join(5)
    assert ended.answer == Answer(value={"count": 2})
    assert heard == [{"got": 2}, {"got": 6}]
    worker.send({"runs": 1})  # too late, and no error


def test_a_worker_that_dies_in_a_conversation(runner: Runner, tmp_path: Path) -> None:
    python = shell_python(tmp_path / "fake", "kill -SEGV $$")
    worker = runner.start("talker", WorkerPython(python), "bench", {}, commands=True)
    wait_until(lambda: not worker.running(), 10, "it is dead")
    worker.send({"runs": 1})
    assert runner.finish(worker).answer == Answer("crash", "ended by SIGSEGV (a segmentation fault)")


def test_jobs_leave_no_open_files(runner: Runner, tmp_path: Path) -> None:
    python = WorkerPython(python_python(tmp_path / "fake", "answer(value={})"))
    runner.run("first", python, "build", {})
    before = psutil.Process().num_fds()
    for _ in range(5):
        runner.run("again", python, "build", {})
    assert psutil.Process().num_fds() == before

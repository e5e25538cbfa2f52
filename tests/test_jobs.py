"""Workers that misbehave in every way that toolkits do, provoked for real: each becomes one answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers.command import ODD, ROOT
from helpers.fakes import python_python, shell_python
from helpers.processes import gone, running_below, wait_until

from convert.jobs import Ended, Interrupted, Limits, Runner, WorkerPython
from convert.records import Kind, ModelRef
from convert.serial import to_plain, write_json
from convert.worker import Answer, Job

MIB = 2**20
REAL = WorkerPython(Path(sys.executable), own_environment=False)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A runner with limits that nothing here comes near."""
    return make_runner(tmp_path, Limits(60))


def make_runner(folder: Path, limits: Limits) -> Runner:
    (folder / "logs").mkdir()
    return Runner(folder / "jobs", folder / "logs", limits)


def run_shell(runner: Runner, folder: Path, script: str) -> Ended:
    return runner.run("fake", WorkerPython(shell_python(folder / "fake", script)), "build", {})


def run_python(runner: Runner, folder: Path, code: str, say: Callable[[str], None] | None = None) -> Ended:
    return runner.run("fake", WorkerPython(python_python(folder / "fake", code)), "build", {"a": 1}, say)


def run_factory(runner: Runner, folder: Path, body: str) -> Ended:
    """Run the real worker on a model whose factory is ``body``."""
    file = folder / "net.py"
    file.write_text(f"import os, sys, time\ndef make():\n    {body}\n", encoding="utf-8")
    return runner.run("source", REAL, "golden", golden_args(file))


def golden_args(file: Path) -> dict[str, Any]:
    ref = ModelRef(str(file), Kind.FACTORY, "make")
    return {"ref": to_plain(ref), "inputs": [], "dims": [], "samples": None, "folder": str(file.parent), "half": False}


# How it ends.


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("kill -SEGV $$", "ended by SIGSEGV (a segmentation fault)"),
        ("kill -ABRT $$", "ended by SIGABRT (an abort)"),
        ("kill -FPE $$", "ended by SIGFPE (a floating point exception)"),
        ("kill -ILL $$", "ended by SIGILL (an illegal instruction)"),
        ("kill -BUS $$", "ended by SIGBUS (a bus error)"),
        (
            "kill -KILL $$",
            "ended by SIGKILL (killed from outside, most often by the system for lack of memory)",
        ),
        ("kill -USR1 $$", "ended by SIGUSR1 (a signal)"),
        ("exit 3", "ended with exit code 3 and no answer"),
        ("exit 0", "ended with exit code 0 and no answer"),
        ("echo loading; echo weights >&2; kill -SEGV $$", "ended by SIGSEGV (a segmentation fault); {log}"),
        ("echo loading; echo weights >&2; exit 1", "ended with exit code 1 and no answer; {log}"),
    ],
)
def test_a_worker_that_ends_without_an_answer(runner: Runner, tmp_path: Path, script: str, reason: str) -> None:
    ended = run_shell(runner, tmp_path, script)
    assert ended.answer == Answer("crash", reason.format(log="last lines of its log: loading | weights"))
    assert not ended.ok


def test_a_signal_without_a_name(runner: Runner, tmp_path: Path) -> None:
    ended = run_python(runner, tmp_path, "os.kill(os.getpid(), signal.SIGRTMIN + 6)")
    assert ended.answer.error == "crash"
    assert ended.answer.reason.startswith(f"ended by signal {signal.SIGRTMIN + 6}")


def test_an_answer_of_a_worker_that_then_crashes_does_not_count(runner: Runner, tmp_path: Path) -> None:
    ended = run_python(runner, tmp_path, "answer(value={'a': 1})\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert ended.answer == Answer("crash", "ended by SIGSEGV (a segmentation fault)")


@pytest.mark.parametrize(
    "text", [b"", b'{"error": ""', b"\xff\xfe", b"null", b"7", b"[]", b'"text"', b'{"unknown": 1}', b'{"error": 3}']
)
def test_an_answer_that_cannot_be_read_is_a_crash(runner: Runner, tmp_path: Path, text: bytes) -> None:
    ended = run_python(runner, tmp_path, f"print('halfway')\nanswer_file.write_bytes({text!r})")
    assert ended.answer.error == "crash"
    assert "answer" in ended.answer.reason
    assert ended.answer.reason.endswith("last lines of its log: halfway")


@pytest.mark.parametrize("start", ["", "#!/nowhere/python\n"])
def test_an_interpreter_that_cannot_be_started_is_a_crash(runner: Runner, tmp_path: Path, start: str) -> None:
    program = tmp_path / "program"
    program.write_bytes(start.encode() + b"\x00not a program")
    program.chmod(0o755)
    ended = runner.run("fake", WorkerPython(program), "build", {})
    assert ended.answer.error == "crash"
    assert str(program) in ended.answer.reason


def test_what_a_worker_answers_comes_back(runner: Runner, tmp_path: Path) -> None:
    ended = run_python(runner, tmp_path, "print('done')\nanswer(value={'stage': job['stage'], 'args': job['args']})")
    assert ended.answer == Answer(value={"stage": "build", "args": {"a": 1}})
    assert ended.ok
    assert ended.value == {"stage": "build", "args": {"a": 1}}
    assert ended.log == tmp_path / "logs/01-fake.log"
    assert ended.log.read_bytes() == b"done\n"
    assert runner.relative_log(ended.log) == "logs/01-fake.log"


# Limits.


def test_a_worker_over_its_time_is_ended_with_its_children(tmp_path: Path) -> None:
    runner = make_runner(tmp_path, Limits(1))
    start = time.monotonic()
    ended = run_shell(runner, tmp_path, "echo compiling; sleep 1000 & echo $! >children; wait")
    assert 1 <= time.monotonic() - start < 8
    assert 1 <= ended.seconds < 8
    assert ended.answer == Answer(
        "crash", "stopped: it took longer than the limit of 1 s (--timeout); last lines of its log: compiling"
    )
    wait_until(lambda: gone(int((tmp_path / "jobs/01-fake/cwd/children").read_text())), 2, "the child is gone")
    assert running_below(tmp_path) == []


def test_a_worker_that_ignores_sigterm_is_ended_all_the_same(tmp_path: Path) -> None:
    runner = make_runner(tmp_path, Limits(0.5))
    start = time.monotonic()
    ended = run_shell(runner, tmp_path, "trap '' TERM; sleep 1000 & sleep 1000")
    assert time.monotonic() - start < 8
    assert ended.answer == Answer("crash", "stopped: it took longer than the limit of 0.5 s (--timeout)")
    assert running_below(tmp_path) == []


def test_a_child_with_a_session_of_its_own_is_ended_too(tmp_path: Path) -> None:
    runner = make_runner(tmp_path, Limits(1))
    code = "import subprocess\nsubprocess.Popen(['sleep', '60'], start_new_session=True)\ntime.sleep(1000)"
    run_python(runner, tmp_path, code)
    wait_until(lambda: running_below(tmp_path) == [], 2, "no process is left")


@pytest.mark.parametrize("own", [True, False])
def test_a_worker_over_its_memory_is_ended(tmp_path: Path, own: bool) -> None:
    runner = make_runner(tmp_path, Limits(60, 200 * MIB))
    eat = "held = b'x' * (400 << 20); time.sleep(1000)"
    child = f"import subprocess\nsubprocess.run([sys.executable, '-c', {'import time; ' + eat!r}])"
    ended = run_python(runner, tmp_path, f"print('reading', flush=True)\n{eat if own else child}")
    assert ended.answer == Answer(
        "crash", "stopped: it used more than the limit of 0.195 GiB (--memory); last lines of its log: reading"
    )
    assert ended.seconds < 30
    assert running_below(tmp_path) == []


def test_a_worker_within_its_memory_is_left_alone(tmp_path: Path) -> None:
    runner = make_runner(tmp_path, Limits(60, 400 * MIB))
    ended = run_python(runner, tmp_path, "held = b'x' * (100 << 20)\ntime.sleep(0.5)\nanswer(value={'a': len(held)})")
    assert ended.answer == Answer(value={"a": 100 * MIB})


def test_children_that_outlive_a_worker_are_ended(runner: Runner, tmp_path: Path) -> None:
    code = "import subprocess\nsubprocess.Popen(['sleep', '1000'])\nanswer(value={})"
    start = time.monotonic()
    assert run_python(runner, tmp_path, code).answer == Answer()
    assert time.monotonic() - start < 5
    wait_until(lambda: running_below(tmp_path) == [], 2, "no process is left")


# What it prints.


def test_megabytes_of_output_are_cut_and_do_not_block(runner: Runner, tmp_path: Path) -> None:
    code = (
        "print('the first line', flush=True)\n"
        "for place in range(500): sys.stdout.write(f'{place:099d}\\n' * 1000)\n"
        "print('the last line', flush=True)\nos.abort()"
    )
    ended = run_python(runner, tmp_path, code)
    kept = ended.log.read_bytes()
    assert kept.startswith(b"the first line\n" + b"0" * 99)
    assert kept.endswith(b"499\nthe last line\n")
    assert MIB + MIB // 16 <= len(kept) <= MIB + MIB // 8 + 100
    assert b" bytes left out ...]\n" in kept
    assert ended.answer.reason.startswith("ended by SIGABRT (an abort); last lines of its log: 000")
    assert ended.answer.reason.endswith("499 | the last line")


def test_a_worker_that_closes_its_output(runner: Runner, tmp_path: Path) -> None:
    ended = run_python(runner, tmp_path, "os.close(1)\nos.close(2)\ntime.sleep(0.5)\nanswer(value={'a': 1})")
    assert ended.answer == Answer(value={"a": 1})
    assert ended.log.read_bytes() == b""


def test_a_worker_that_asks_for_input_gets_none(runner: Runner, tmp_path: Path) -> None:
    assert run_python(runner, tmp_path, "answer(value={'read': sys.stdin.read()})").value == {"read": ""}


def test_progress_comes_through_and_garbage_on_its_line_does_no_harm(runner: Runner, tmp_path: Path) -> None:
    said: list[str] = []
    lines = [b"\xff\xfe garbage", b"", b"{", b"null", b"7", b'["progress"]', b'"progress"', b'{"other": 1}']
    code = (
        "line = os.fdopen(job['events'], 'wb', buffering=0)\n"
        f"for text in [{{'progress': 'first'}}, *{lines!r}, {{'progress': 'last'}}]:\n"
        "    line.write((text if isinstance(text, bytes) else json.dumps(text).encode()) + b'\\n')\n"
        "line.write(b'{\"progress\": \"cut sho')\n"
        "answer(value={'a': 1})"
    )
    ended = run_python(runner, tmp_path, code, said.append)
    assert ended.value == {"a": 1}
    assert said == ["first", "last"]


def test_more_progress_than_a_pipe_holds_does_not_block(tmp_path: Path) -> None:
    runner = make_runner(tmp_path, Limits(20))
    code = (
        "line = os.fdopen(job['events'], 'wb', buffering=0)\n"
        "for place in range(2000): line.write(b'\\xff' * 99 + b'\\n')\nanswer(value={'a': 1})"
    )
    assert run_python(runner, tmp_path, code).value == {"a": 1}


# Where it runs.


def test_a_worker_has_folders_of_its_own(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    code = (
        "names = 'TMPDIR', 'PYTHONPATH', 'OMP_NUM_THREADS'\n"
        "answer(value={'cwd': os.getcwd(), **{name: os.environ.get(name) for name in names}})"
    )
    python = WorkerPython(python_python(tmp_path / "fake", code))
    scratch = str(tmp_path / "jobs/01-one/cwd")
    assert runner.run("one", python, "build", {}).value == {
        "cwd": scratch,
        "TMPDIR": scratch,
        "PYTHONPATH": None,
        "OMP_NUM_THREADS": None,
    }
    shared = WorkerPython(python.python, own_environment=False)
    value = runner.run("two", shared, "build", {}, threads=3).value
    assert (value["PYTHONPATH"], value["OMP_NUM_THREADS"]) == ("/somewhere", "3")


@pytest.mark.parametrize("name", [ODD, "two words"])
def test_odd_names_of_folders_and_jobs(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    runner = make_runner(folder, Limits(60))
    ended = runner.run(f"tflite/../{name}", REAL, "probe", {"target": "onnx"})
    assert ended.value == {"reason": ""}
    assert ended.log.parent == folder / "logs"
    assert run_shell(runner, folder, "echo \"$PWD\"; exit 1").answer.reason.endswith(f": {folder}/jobs/02-fake/cwd")
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


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
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}) as parent:
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
        wait_until(lambda runs=runs: bool(heard) and heard[-1] == {"got": runs + 1}, 10, "an answer")
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

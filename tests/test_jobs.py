"""Workers that misbehave in every way that toolkits do, provoked for real: each becomes one answer."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from helpers.command import ODD
from helpers.fakes import python_python
from helpers.jobs import REAL, make_runner, run_python, run_shell
from helpers.processes import gone, running_below, wait_until

from convert.jobs import Limits, Runner, WorkerPython
from convert.worker import Answer

MIB = 2**20


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
        'line.write(b\'{"progress": "cut sho\')\n'
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
    assert run_shell(runner, folder, 'echo "$PWD"; exit 1').answer.reason.endswith(f": {folder}/jobs/02-fake/cwd")
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]

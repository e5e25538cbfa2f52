"""Users who lose patience: a run that is stopped or killed, at whatever point, leaves no process and no file."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from helpers.command import Done, Variables, finish, listing, run, start
from helpers.fakes import python_python, shell_python
from helpers.places import assert_clean, core_with
from helpers.processes import running_below, wait_until

pytestmark = pytest.mark.toolkit


class Interruptible:
    """A run that hangs in a fake toolchain, at a place where the test can stop it."""

    def __init__(self, place: Path, model: str | Path, words: list[str], variables: Variables) -> None:
        self.place = place
        self.out = place / "new" / "deeper" / "out"
        everything: Variables = {"TMPDIR": place / "temporary", **variables}
        self.process = start(model, *words, "--out", self.out, cwd=place / "cwd", variables=everything)
        wait_until(self._hangs, 60, "the run has come to the place where it hangs")

    def _hangs(self) -> bool:
        assert self.process.poll() is None, self.process.communicate()
        return (self.place / "started").exists()

    def stop(self, *signals: int) -> Done:
        """Send the signals, a third of a second apart, and wait for the end."""
        begun = time.monotonic()
        for number in signals:
            self.process.send_signal(number)
            time.sleep(0.3)
        done = finish(self.process, 30)
        assert time.monotonic() - begun < 10
        return done


def hang(place: Path) -> str:
    """A shell script that says so, starts a child, and does not listen to SIGTERM."""
    return f"trap '' TERM; sleep 1000 & touch {shlex.quote(str(place / 'started'))}; sleep 1000"


def sleeping_net(place: Path) -> Path:
    """A model that says so and then takes forever to be made."""
    net = place / "net.py"
    started = str(place / "started")
    code = f"import pathlib, time\ndef make():\n    pathlib.Path({started!r}).touch()\n    time.sleep(1000)\n"
    net.write_text(code, encoding="utf-8")
    return net


@pytest.fixture
def _no_survivors(tmp_path: Path) -> Iterator[None]:
    """Whatever a failing test leaves running is ended."""
    yield
    for process in psutil.process_iter():
        try:
            if any(str(tmp_path) in word for word in (*process.cmdline(), process.environ().get("TMPDIR", ""))):
                process.kill()
        except psutil.Error:
            continue


@pytest.mark.usefixtures("_no_survivors")
@pytest.mark.parametrize("signals", [("SIGINT",), ("SIGTERM",), ("SIGHUP",), ("SIGINT", "SIGINT", "SIGINT")])
def test_a_build_that_is_stopped_leaves_nothing(place: Path, small_onnx: Path, signals: tuple[str, ...]) -> None:
    python = shell_python(place / "tvm", hang(place))
    running = Interruptible(place, small_onnx, ["-t", "onnx,tvm", "-q"], {"CONVERT_PYTHON_TVM": python})
    assert running_below(place) != []
    done = running.stop(*(signal.Signals[name] for name in signals))
    assert (done.code, done.stdout) == (130, "")
    assert done.stderr.strip() == "convert: interrupted; nothing was written"
    assert_clean(place, out=running.out)


@pytest.mark.usefixtures("_no_survivors")
def test_a_source_that_is_stopped_leaves_nothing(place: Path) -> None:
    net = sleeping_net(place)
    running = Interruptible(place, f"{net}:make", ["-t", "onnx", "--input", "x=float32[4]"], {})
    done = running.stop(signal.SIGINT)
    assert done.code == 130
    assert done.last_line == "convert: interrupted; nothing was written"
    assert_clean(place, out=running.out)
    assert sorted(path.name for path in place.iterdir()) == ["cwd", "net.py", "started", "temporary"]


@pytest.mark.usefixtures("_no_survivors")
@pytest.mark.parametrize("at", ["ready", "times"])
def test_a_measurement_that_is_stopped_leaves_nothing(place: Path, small_onnx: Path, at: str) -> None:
    code = (
        "events = os.fdopen(job['events'], 'w')\n"
        "def tell(**event): print(json.dumps(event), file=events, flush=True)\n"
        + ("tell(ready=True)\ntell(times=[0.001])\n" if at == "times" else "")
        + f"Path({str(place / 'started')!r}).touch()\ntime.sleep(1000)"
    )
    script = f'exec {shlex.quote(str(python_python(place / "hanging", code)))} "$@"'
    variables = core_with(place, {"bench-onnx-float32/answer.json": script})
    running = Interruptible(place, small_onnx, ["-t", "onnx", "-q"], variables)
    done = running.stop(signal.SIGINT)
    assert (done.code, done.stderr.strip()) == (130, "convert: interrupted; nothing was written")
    assert_clean(place, out=running.out)


@pytest.mark.usefixtures("_no_survivors")
def test_an_earlier_report_outlives_a_run_that_is_stopped(place: Path, small_onnx: Path) -> None:
    out = place / "new" / "deeper" / "out"
    assert run(small_onnx, "-t", "onnx", "--bench-seconds", "0", "--out", out, cwd=place / "cwd").code == 0
    before = listing(out.parent)
    python = shell_python(place / "tvm", hang(place))
    running = Interruptible(place, small_onnx, ["-t", "tvm", "-q"], {"CONVERT_PYTHON_TVM": python})
    assert running.stop(signal.SIGINT).code == 130
    assert listing(out.parent) == before


@pytest.mark.usefixtures("_no_survivors")
def test_what_a_killed_run_leaves_is_cleaned_up_by_the_next(place: Path, small_onnx: Path) -> None:
    net = sleeping_net(place)
    first = Interruptible(place, f"{net}:make", ["-t", "onnx", "--input", "x=float32[4]"], {})
    words = ["-t", "onnx", "-q", "--bench-seconds", "0", "--out", str(first.out)]

    # While it runs, nobody else writes there.
    second = run(small_onnx, *words, cwd=place / "cwd")
    assert (second.code, second.stdout) == (2, "")
    assert second.stderr == (
        f"convert: another run is writing into {first.out}; wait for it, or choose another --out\n"
    )
    assert first.process.poll() is None
    assert len(running_below(place)) >= 2

    first.process.send_signal(signal.SIGKILL)
    finish(first.process, 10)
    wait_until(lambda: running_below(place) == [], 5, "its workers are gone")
    assert not first.out.exists()
    (left,) = first.out.parent.iterdir()
    assert left.name.startswith(".out.partial-")

    third = run(small_onnx, *words, cwd=place / "cwd")
    assert third.code == 0, third.stderr
    assert [path.name for path in first.out.parent.iterdir()] == ["out"]
    assert_clean(place)

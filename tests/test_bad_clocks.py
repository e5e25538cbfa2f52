"""A clock that jumps: times that are measured, limits, locks and what lies around do not depend on it."""

from __future__ import annotations

import ast
import itertools
import os
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.command import ROOT
from helpers.jobs import make_runner, run_shell

from convert.errors import InputError
from convert.golden_io import CaseData, load_case, save_case
from convert.jobs import Limits, Runner
from convert.outdir import OutputFolder
from convert.records import Case

HOURS = 3600.0
WALL = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow"), ("date", "today")}
#: Where the wall clock is asked: for the date in the report and in a result, and for which kept ranges go when there
#: are too many (the wrong ones cost a measurement, no more).
ALLOWED = {"convert/report/assemble.py", "targets/range_cache.py", "targets/trt_host/result.py"}


def asks_the_wall_clock(code: str) -> bool:
    """Whether ``code`` reads the time of day, or ages of files."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            if (owner, node.attr) in WALL or node.attr in ("st_mtime", "getmtime", "st_ctime"):
                return True
        if isinstance(node, ast.ImportFrom) and node.module == "time" and any(a.name == "time" for a in node.names):
            return True
    return False


def test_nothing_that_matters_is_taken_from_the_wall_clock() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("convert", "models", "targets", "validators")
        for path in (ROOT / folder).rglob("*.py")
        if "/digits/" not in path.as_posix() and asks_the_wall_clock(path.read_text(encoding="utf-8"))
    }
    assert found - {f"convert/{name}" for name in found} == ALLOWED


@pytest.mark.parametrize(
    "code", ["time.time()", "datetime.datetime.now()", "from time import time", "p.stat().st_mtime"]
)
def test_the_search_would_notice_it(code: str) -> None:
    assert asks_the_wall_clock(code)


@pytest.fixture(params=["forward", "back", "to and fro", "1970"])
def jumping(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A wall clock that jumps by hours each time that it is read."""
    start = time.time()
    steps = {
        "forward": itertools.count(1),
        "back": itertools.count(-1, -1),
        "to and fro": itertools.cycle([5, -5]),
        "1970": itertools.repeat(-start / HOURS),
    }[request.param]
    monkeypatch.setattr(time, "time", lambda: start + next(steps) * HOURS)
    monkeypatch.setattr(time, "time_ns", lambda: int((start + next(steps) * HOURS) * 1e9))
    return str(request.param)


@pytest.mark.usefixtures("jumping")
def test_a_worker_has_its_time_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    begun = time.monotonic()
    short = run_shell(make_runner(tmp_path / "a", Limits(0.4)), tmp_path / "a", "exec sleep 1000")
    assert short.answer.reason == "stopped: it took longer than the limit of 0.4 s (--timeout)"
    assert 0.4 <= short.seconds < 5
    good = run_shell(make_runner(tmp_path / "b", Limits(60)), tmp_path / "b", "sleep 0.2; exit 7")
    assert good.answer.reason == "ended with exit code 7 and no answer"
    assert 0.2 <= good.seconds < 5
    assert time.monotonic() - begun < 10


@pytest.mark.usefixtures("jumping")
def test_locks_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVERT_CACHE", str(tmp_path / "cache"))
    with OutputFolder(tmp_path / "out") as out:
        with pytest.raises(InputError, match="another run is writing into"), OutputFolder(tmp_path / "out"):
            pass
        (out.path / "report.json").write_text("{}", encoding="utf-8")
        out.publish()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.json"]


@pytest.mark.parametrize("age", [-100 * HOURS, 0.0, 100 * HOURS, 1e6 * HOURS])
def test_what_a_killed_run_left_is_removed_whatever_its_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: float
) -> None:
    monkeypatch.setenv("CONVERT_CACHE", str(tmp_path / "cache"))
    stale = tmp_path / "place" / ".out.partial-1"
    stale.mkdir(parents=True)
    moment = max(0.0, time.time() - age)
    os.utime(stale, (moment, moment))
    with OutputFolder(tmp_path / "place" / "out") as out:
        assert [path.name for path in (tmp_path / "place").iterdir()] == [out.path.name]


@pytest.mark.usefixtures("jumping")
def test_cases_are_written_at_any_date(tmp_path: Path) -> None:
    """A zip file cannot hold a date before 1980."""
    data = CaseData({"x": np.ones(3)}, {"y": np.zeros(2)}, {})
    save_case(tmp_path / "c.npz", data)
    found = load_case(tmp_path, Case("c", "draw", {}, 0, "c.npz"))
    assert found.feeds["x"].tolist() == [1, 1, 1]


def test_a_limit_of_any_length(runner: Runner, tmp_path: Path) -> None:
    runner._limits = Limits(1e300)
    assert run_shell(runner, tmp_path, "exit 3").answer.reason == "ended with exit code 3 and no answer"

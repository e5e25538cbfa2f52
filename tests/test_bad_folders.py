"""Folders that cannot be written, and disks that are full at whatever point: one sentence, and nothing half-written."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.command import listing, run
from helpers.disks import disk, fill
from helpers.fakes import shell_python
from helpers.jobs import REAL, make_runner
from helpers.places import core_with, report_of

from convert import jobs
from convert.errors import ConvertError, InputError
from convert.jobs import CannotWrite, Limits, WorkerPython
from convert.logs import CappedLog
from convert.outdir import OutputFolder, full_disk_named
from convert.serial import write_json

FULL = "No space left on device"
_MOVE = "set CONVERT_CACHE to another folder"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVERT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder that not even root can write into."""
    with disk(tmp_path / "ro", "ro") as folder:
        yield folder


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for 1 MiB."""
    with disk(tmp_path / "small", "size=1m") as folder:
        yield folder


def enter(folder: Path) -> str:
    """The refusal of an output folder."""
    with pytest.raises(InputError) as caught, OutputFolder(folder):
        pass
    return str(caught.value)


def test_a_folder_that_cannot_be_written(read_only: Path) -> None:
    for name in ("out", "new/out"):
        assert enter(read_only / name) == (
            f"--out {read_only / name} cannot be written (Read-only file system); choose another folder"
        )
    assert list(read_only.iterdir()) == []


def test_a_folder_of_the_system(tmp_path: Path) -> None:
    assert enter(Path("/proc/convert/out")) == (
        "--out /proc/convert/out cannot be written (No such file or directory); choose another folder"
    )


@pytest.mark.parametrize("name", ["a" * 300, "b/" * 3000])
def test_a_folder_whose_name_is_too_long(tmp_path: Path, name: str) -> None:
    assert enter(tmp_path / name).endswith(" cannot be written (File name too long); choose another folder")
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == []


def test_a_full_disk_at_the_start(tmp_path: Path) -> None:
    with disk(tmp_path / "small", "nr_inodes=2") as small:
        assert enter(small / "new" / "out") == (
            f"--out {small}/new/out cannot be written ({FULL}); choose another folder"
        )
        assert list(small.iterdir()) == []


def test_a_refused_folder_is_unlocked_and_leaves_no_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> str:
        raise OSError(errno.ENOSPC, FULL)

    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkdtemp", fail)
        assert enter(tmp_path / "new" / "out").endswith(f"new/out cannot be written ({FULL}); choose another folder")
    assert not (tmp_path / "new").exists()
    with OutputFolder(tmp_path / "new" / "out"):
        pass


@pytest.mark.parametrize("where", ["ro", "file"])
def test_a_cache_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    if where == "file":
        (tmp_path / "file").touch()
        monkeypatch.setenv("CONVERT_CACHE", str(tmp_path / "file"))
        text = enter(tmp_path / "out")
        assert text == f"the cache folder {tmp_path}/file cannot be written (Not a directory); {_MOVE}"
        return
    with disk(tmp_path / "ro", "ro") as folder:
        monkeypatch.setenv("CONVERT_CACHE", str(folder / "cache"))
        text = enter(tmp_path / "out")
    assert text == f"the cache folder {tmp_path}/ro/cache cannot be written (Read-only file system); {_MOVE}"


def write_on_a_full_disk(final: Path, small: Path) -> None:
    """A run whose disk fills up in the middle."""
    with OutputFolder(final) as out, full_disk_named(out):
        fill(small)
        write_json(out.path / "report.json", {"x": "y" * 10_000})
        out.publish()


def test_a_disk_that_fills_up_while_the_report_is_written(small: Path) -> None:
    final = small / "new" / "out"
    with pytest.raises(ConvertError) as caught:
        write_on_a_full_disk(final, small)
    assert str(caught.value) == (
        f"the run could not be finished, since nothing more can be written to {small}/new ({FULL}); free space there, "
        "or choose another folder with --out"
    )
    assert (caught.value.exit_code, isinstance(caught.value, InputError)) == (1, False)
    assert [path.name for path in small.iterdir()] == ["fill"]


def test_an_earlier_report_outlives_a_full_disk(small: Path) -> None:
    with OutputFolder(small / "out") as out:
        (out.path / "report.json").write_text("{}", encoding="utf-8")
        out.publish()
    with pytest.raises(ConvertError):
        write_on_a_full_disk(small / "out", small)
    assert listing(small / "out") == {"report.json": b"{}"}


def test_other_errors_are_not_blamed_on_the_disk(tmp_path: Path) -> None:
    with OutputFolder(tmp_path / "out") as out:
        for error in (FileNotFoundError(errno.ENOENT, "x"), ConvertError("y"), InputError("z"), KeyError("k")):
            with pytest.raises(type(error)) as caught, full_disk_named(out):
                raise error
            assert caught.value is error


def test_a_log_without_space_does_not_block_its_worker(small: Path) -> None:
    fill(small)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        log = CappedLog(pipe, small / "log")
        with os.fdopen(writing, "wb", buffering=0) as out:
            for _ in range(64):  # more than a pipe holds
                out.write(bytes(1 << 15))
        log.finish()


def test_a_worker_whose_files_cannot_be_written_is_a_crash(small: Path, tmp_path: Path) -> None:
    runner = make_runner(tmp_path, Limits(60))
    runner._work = small / "jobs"
    fill(small)
    before = len(list(Path("/proc/self/fd").iterdir()))
    ended = runner.run("x", REAL, "build", {"a": "b" * 100_000})
    assert ended.answer.error == "crash"
    assert ended.answer.reason == f"the files of the run cannot be written ({FULL})"
    with pytest.raises(CannotWrite):
        runner.start("y", REAL, "bench", {"a": "b" * 100_000}, commands=True)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_worker_that_ends_for_lack_of_space_says_so(small: Path, tmp_path: Path) -> None:
    runner = make_runner(tmp_path, Limits(60))
    runner._work = small / "jobs"
    script = f"cat /dev/zero > {shlex.quote(str(small / 'big'))} 2>/dev/null; exit 1"
    ended = runner.run("x", WorkerPython(shell_python(tmp_path / "fake", script)), "build", {})
    assert ended.answer.reason == (
        "ended with exit code 1 and no answer (there is no space left for the files of the run)"
    )


def test_space_is_only_mentioned_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert jobs.has_space(tmp_path)
    assert jobs.has_space(tmp_path / "gone")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    assert not jobs.has_space(tmp_path)


# Whole runs.


@pytest.mark.toolkit
def test_a_disk_that_fills_up_in_the_source(place: Path, small_onnx: Path, tmp_path: Path) -> None:
    """The source's worker takes all the space, and fails for it."""
    with disk(tmp_path / "small", "size=1m") as small:
        script = f'cat /dev/zero > {shlex.quote(str(small / "big"))}; exec {shlex.quote(sys.executable)} "$@"'
        done = run(
            small_onnx,
            *("-t", "onnx", "-q", "--out", small / "new" / "out"),
            cwd=place / "cwd",
            variables={"TMPDIR": place / "temporary", **core_with(place, {'"stage": "golden"': script})},
        )
        assert (done.code, done.stdout) == (1, "")
        assert done.stderr == (
            f"convert: the run could not be finished, since nothing more can be written to {small}/new ({FULL}); free "
            "space there, or choose another folder with --out\n"
        )
        assert [path.name for path in small.iterdir()] == ["big"]
    assert listing(place / "temporary") == {}


@pytest.mark.toolkit
def test_a_disk_that_fills_up_in_one_build_costs_that_one(place: Path, small_onnx: Path, tmp_path: Path) -> None:
    """Its files go with it, and then there is space for the report."""
    with disk(tmp_path / "small", "size=3m") as small:
        python = shell_python(place / "tvm", "cat /dev/zero > big; exit 1")  # in its own folder
        done = run(
            small_onnx,
            *("-t", "tvm", "-q", "--bench-seconds", "0", "--out", small / "out"),
            cwd=place / "cwd",
            variables={"TMPDIR": place / "temporary", "CONVERT_PYTHON_TVM": python},
        )
        assert done.code == 1, done.stderr
        (outcome,) = report_of(small / "out").artifacts
        assert str(outcome.status) == "failed"
        assert f"{FULL}" in outcome.reason or "there is no space left for the files of the run" in outcome.reason
        assert [path.name for path in small.iterdir()] == ["out"]


@pytest.mark.toolkit
def test_init_into_a_folder_that_cannot_be_written(place: Path, small_onnx: Path, read_only: Path) -> None:
    done = run("init", small_onnx, "-q", "--out", read_only / "convert.toml", cwd=place / "cwd")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == (
        f"convert: {read_only}/convert.toml cannot be written (Read-only file system); choose another file with --out\n"
    )


def test_standard_output_that_is_full(place: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "convert", "targets"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == (
        "convert: nothing can be written to standard output or the folder for temporary files (TMPDIR) "
        f"({FULL}); free space there\n"
    )

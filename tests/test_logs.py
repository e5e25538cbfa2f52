"""Logs of workers keep their start and their end, and the last lines can be read back."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from convert import logs
from convert.logs import CappedLog, tail

HEAD, TAIL = 1 << 20, 1 << 16


def copied(data: bytes, path: Path, piece: int = 1 << 15) -> bytes:
    """What ``CappedLog`` makes of ``data``, written in pieces."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        log = CappedLog(pipe, path)
        with os.fdopen(writing, "wb", buffering=0) as out:
            for start in range(0, len(data), piece):
                out.write(data[start : start + piece])
        log.finish()
        return path.read_bytes()


def pattern(size: int) -> bytes:
    """``size`` bytes of which any two stretches differ."""
    return b"".join(b"%07d\n" % place for place in range(size // 8 + 1))[:size]


@pytest.mark.parametrize("size", [0, 1, HEAD, HEAD + 1, HEAD + TAIL])
def test_a_log_of_moderate_size_is_kept_whole(tmp_path: Path, size: int) -> None:
    assert copied(pattern(size), tmp_path / "log") == pattern(size)


@pytest.mark.parametrize("piece", [1000, 1 << 15, 1 << 18])
def test_a_long_log_keeps_start_and_end_and_says_what_is_missing(tmp_path: Path, piece: int) -> None:
    data = pattern(3 * HEAD + 12345)
    kept = copied(data, tmp_path / "log", piece)
    assert kept[:HEAD] == data[:HEAD]
    match = re.match(rb"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n", kept[HEAD:])
    assert match is not None
    end = kept[HEAD + match.end() :]
    assert end == data[HEAD + int(match[1]) :]
    assert TAIL <= len(end) <= 2 * TAIL


def test_what_arrives_is_on_disk_at_once(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "wb", buffering=0) as out:
        log = CappedLog(pipe, tmp_path / "log")
        out.write(b"loading\n")
        deadline = time.monotonic() + 5
        while not (tmp_path / "log").is_file() or not (tmp_path / "log").stat().st_size:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        assert (tmp_path / "log").read_bytes() == b"loading\n"
        out.close()
        log.finish()


def test_a_pipe_that_someone_keeps_open_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_JOIN_SECONDS", 0.05)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "wb", buffering=0) as out:
        log = CappedLog(pipe, tmp_path / "log")
        start = time.monotonic()
        log.finish()
        assert 0.04 < time.monotonic() - start < 2
        out.close()
        log.finish()


@pytest.mark.parametrize(
    ("data", "count", "lines"),
    [
        (b"", 3, []),
        (b"one\n", 3, ["one"]),
        (b"one\ntwo\nthree\nfour", 2, ["three", "four"]),
        (b"one\n\n  \n\ttwo  \n\n", 2, ["one", "two"]),
        (b"10%\r50%\r100%\rdone\n", 2, ["100%", "done"]),
        (b"a\r\nb\r\n", 3, ["a", "b"]),
        (b"caf\xc3\xa9 \xff\n", 1, ["café \ufffd"]),
    ],
)
def test_tail(tmp_path: Path, data: bytes, count: int, lines: list[str]) -> None:
    (tmp_path / "log").write_bytes(data)
    assert tail(tmp_path / "log", count) == lines


def test_tail_cuts_long_lines(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("x" * 301 + "\n" + "y" * 300 + "\n", encoding="utf-8")
    assert tail(tmp_path / "log", 2) == ["x" * 300, "y" * 300]
    assert tail(tmp_path / "log", 1, width=3) == ["yyy"]


def test_tail_reads_only_the_end_of_a_large_file(tmp_path: Path) -> None:
    for size, lines in ((TAIL - 12, ["first", "x" * 300, "last"]), (TAIL, ["x" * 300, "last"])):
        (tmp_path / "log").write_bytes(b"first\n" + b"x" * size + b"\nlast\n")
        assert tail(tmp_path / "log", 9) == lines


def test_tail_of_no_file_is_empty(tmp_path: Path) -> None:
    assert tail(tmp_path / "log", 3) == []

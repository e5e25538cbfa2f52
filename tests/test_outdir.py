"""The output folder appears whole or not at all, and one run at a time writes it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from convert.errors import InputError
from convert.outdir import OutputFolder, sha256_of


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVERT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with nothing in it."""
    made = tmp_path / "place"
    made.mkdir()
    return made


def names(folder: Path) -> list[str]:
    """What lies in ``folder``, hidden or not."""
    return sorted(path.name for path in folder.iterdir())


def publish(final: Path, **files: str) -> None:
    """One run that leaves ``files`` and a report."""
    with OutputFolder(final) as out:
        for name, text in {"report.json": "{}", **files}.items():
            (out.path / name).write_text(text, encoding="utf-8")
        out.publish()


class Crash(Exception):
    """What ends a run in these tests."""


def fill_and_raise(folder: Path, error: type[BaseException]) -> None:
    """Leave a file in a new ``folder`` and fail."""
    folder.mkdir()
    (folder / "theirs").write_text("x", encoding="utf-8")
    raise error


def test_nothing_is_there_until_it_is_published_whole(place: Path) -> None:
    final = place / "new" / "newer" / "out"
    with OutputFolder(final) as out:
        assert out.path.parent == final.parent
        assert out.path.name.startswith(".out.partial-")
        assert out.path.stat().st_mode & 0o777 == 0o755
        (out.path / "report.json").write_text("{}", encoding="utf-8")
        assert not final.exists()
        out.publish()
        assert names(final) == ["report.json"]
    assert names(final.parent) == ["out"]
    assert names(final) == ["report.json"]


@pytest.mark.parametrize("error", [Crash, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_nothing_not_even_parents(place: Path, error: type[BaseException]) -> None:
    for _ in range(2):  # the lock is free again
        with pytest.raises(error), OutputFolder(place / "a" / "b" / "out") as out:
            fill_and_raise(out.path / "logs", error)
        assert names(place) == []


def test_parents_that_were_there_or_that_others_use_stay(place: Path) -> None:
    (place / "old").mkdir()
    with pytest.raises(Crash), OutputFolder(place / "old" / "new" / "out"):
        raise Crash
    assert names(place) == ["old"]
    assert names(place / "old") == []
    with pytest.raises(Crash), OutputFolder(place / "old" / "new" / "newer" / "out"):
        fill_and_raise(place / "old" / "new" / "kept", Crash)
    assert names(place / "old" / "new") == ["kept"]


def test_an_earlier_report_is_replaced_whole(place: Path) -> None:
    (place / "out").mkdir()  # an empty folder may be filled
    publish(place / "out", old="1")
    with OutputFolder(place / "out") as out:
        assert names(place / "out") == ["old", "report.json"]
        (out.path / "new").write_text("2", encoding="utf-8")
        out.publish()
    assert names(place / "out") == ["new"]
    assert names(place) == ["out"]


def test_a_failure_leaves_the_earlier_report_alone(place: Path) -> None:
    publish(place / "out", old="1")
    with OutputFolder(place / "out"):
        pass  # left without publishing
    assert names(place / "out") == ["old", "report.json"]
    assert names(place) == ["out"]


def test_a_foreign_folder_is_refused(place: Path) -> None:
    (place / "report.json").mkdir()  # no report
    with pytest.raises(InputError) as caught:
        OutputFolder(place)
    assert str(caught.value) == (
        f"--out {place} holds files that no run of convert made (there is no report.json); "
        "choose an empty or new folder"
    )
    assert names(place) == ["report.json"]


def test_a_file_is_refused(place: Path) -> None:
    (place / "out").write_text("", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        OutputFolder(place / "out")
    assert str(caught.value) == f"--out {place / 'out'} is a file; choose a folder"


def test_a_folder_below_a_file_is_refused(place: Path) -> None:
    (place / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="choose"), OutputFolder(place / "file" / "out"):
        pass


def test_files_that_others_put_there_during_the_run_are_not_replaced(place: Path) -> None:
    with OutputFolder(place / "out") as out:
        (place / "out").mkdir()
        (place / "out" / "thesis.tex").write_text("years of work", encoding="utf-8")
        with pytest.raises(InputError, match="no run of convert made"):
            out.publish()
    assert names(place) == ["out"]
    assert names(place / "out") == ["thesis.tex"]


def test_a_swap_that_fails_puts_the_earlier_report_back(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(place / "out", old="1")
    with OutputFolder(place / "out") as out:
        made = out.path

        def replace(source: Path, target: Path) -> None:
            if source == made:
                raise Crash
            source.rename(target)

        monkeypatch.setattr(os, "replace", replace)
        with pytest.raises(Crash):
            out.publish()
    assert names(place) == ["out"]
    assert names(place / "out") == ["old", "report.json"]


def test_a_second_writer_is_refused_and_harms_nothing(place: Path) -> None:
    final = place / "out"
    with OutputFolder(final) as first:
        (first.path / "report.json").write_text("{}", encoding="utf-8")
        with pytest.raises(InputError) as caught, OutputFolder(place / "sub" / ".." / "out"):
            pass
        assert str(caught.value) == f"another run is writing into {final}; wait for it, or choose another --out"
        assert names(first.path) == ["report.json"]
        with OutputFolder(place / "other"):
            pass
        first.publish()
    publish(final, second="")
    assert names(final) == ["report.json", "second"]


def test_a_writer_in_another_process_is_refused(place: Path) -> None:
    code = "import sys, pathlib, convert.outdir as o; o.OutputFolder(pathlib.Path(sys.argv[1])).__enter__()"
    with OutputFolder(place / "out"):
        command = [sys.executable, "-c", code, str(place / "out")]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "InputError: another run is writing into" in ended.stderr


@pytest.mark.parametrize("name", ["out", "run[1]", "a*"])
def test_what_a_killed_run_left_is_removed_and_nothing_else(place: Path, name: str) -> None:
    others = [".run1.partial-x", ".ab.partial-x", ".output.partial-x", f"{name}.partial-x", f".{name}.partial"]
    for stale in (f".{name}.partial-1", f".{name}.partial-2", *others):
        (place / stale).mkdir()
        (place / stale / "file").write_text("", encoding="utf-8")
    with OutputFolder(place / name) as out:
        assert names(place) == sorted([*others, out.path.name])
    assert names(place) == sorted(others)


def test_sha256_of_a_file_that_is_read_in_pieces(tmp_path: Path) -> None:
    data = bytes(range(251)) * 9000
    (tmp_path / "file").write_bytes(data)
    assert sha256_of(tmp_path / "file") == hashlib.sha256(data).hexdigest()

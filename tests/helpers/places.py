"""A place to run the command in, and whether it is clean afterwards."""

from __future__ import annotations

from pathlib import Path

from convert.records import Outcome, Report
from convert.serial import read_json
from helpers.command import Variables, listing, python_of
from helpers.fakes import staged_python
from helpers.processes import running_below


def make_place(folder: Path) -> Path:
    """``folder`` with an empty working folder ``cwd`` and an empty ``temporary`` in it."""
    for name in ("cwd", "temporary"):
        (folder / name).mkdir()
    return folder


def report_of(folder: Path) -> Report:
    """The report in an output folder."""
    return read_json(Report, folder / "report.json")


def by_target(report: Report) -> dict[str, Outcome]:
    """The outcomes of a run with one precision."""
    return {outcome.target: outcome for outcome in report.artifacts}


def assert_clean(place: Path, *, out: Path | None = None) -> None:
    """No process, no partial folder, nothing in the working and temporary folders; ``out`` and its parents are gone."""
    assert running_below(place) == []
    assert [str(path) for path in place.rglob(".*partial*")] == []
    assert listing(place / "cwd") == {}
    assert listing(place / "temporary") == {}
    if out is not None:
        top = place / out.relative_to(place).parts[0]
        assert not top.exists()


def core_with(place: Path, faults: dict[str, str]) -> Variables:
    """The core toolchain, but for the jobs whose file has one of these texts."""
    return {"CONVERT_PYTHON_CORE": staged_python(place / "core", python_of("core"), faults)}

"""docs/coverage.json, where the figures are, and docs/coverage.md, which is made from it."""

from __future__ import annotations

import datetime
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path

from coverage_cells import Cell, Row

from convert import __version__
from convert.serial import read_json, write_json

DOCS = Path(__file__).resolve().parent.parent / "docs"
DATA, PAGE = DOCS / "coverage.json", DOCS / "coverage.md"


@dataclass(frozen=True)
class Made:
    """When and with what something was measured: date, this package's version, host and toolkits."""

    date: str
    convert: str
    host: dict[str, str]
    toolchains: dict[str, dict[str, str]]


@dataclass(frozen=True)
class Zoo:
    """The reference models on every target."""

    made: Made
    models: dict[str, Row]


@dataclass(frozen=True)
class Tally:
    """What became of a sample of one suite on one target.

    Attributes:
        size: number of items of the whole suite.
        seed: of the sample; None where all items were taken.
        passed, wrong, refused, crashed: how many items ended so.
        stages: stage -> how many were refused there.
        named: ``wrong``, ``refused`` and ``crashed`` -> the items, each with what was seen.
    """

    size: int
    seed: int | None
    passed: int
    wrong: int
    refused: int
    crashed: int
    stages: dict[str, int] = field(default_factory=dict)
    named: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many items were run."""
        return self.passed + self.wrong + self.refused + self.crashed

    def kind_of(self, item: str) -> str:
        """How an item of this sample ended; those that are not named passed."""
        return next((kind for kind, items in self.named.items() if item in items), "passed")


@dataclass(frozen=True)
class SuiteTally:
    """One suite: when it was run, and what became of it on each target."""

    made: Made
    targets: dict[str, Tally]


@dataclass(frozen=True)
class Coverage:
    """Everything in docs/coverage.json."""

    zoo: Zoo | None = None
    suites: dict[str, SuiteTally] = field(default_factory=dict)


def load(path: Path = DATA) -> Coverage:
    """Read the file; one that is not there is empty."""
    return read_json(Coverage, path) if path.is_file() else Coverage()


def save(coverage: Coverage) -> None:
    """Write the file, and the page from it."""
    from coverage_page import render

    write_json(DATA, coverage)
    PAGE.write_text(render(coverage), encoding="utf-8")


def made_now(toolchains: dict[str, dict[str, str]]) -> Made:
    """Today, on this host, with these versions."""
    host = {"system": platform.system(), "machine": platform.machine(), "cpu": _cpu(), "cores": str(os.cpu_count())}
    return Made(datetime.date.today().isoformat(), __version__, host, toolchains)


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown CPU")


def cell(coverage: Coverage, model: str, target: str, fixed: bool = False) -> Cell | None:
    """What the file says of ``model`` on ``target``; None where it says nothing."""
    row = coverage.zoo.models.get(model) if coverage.zoo is not None else None
    if row is None:
        return None
    return (row.fixed if fixed else row.targets).get(target)

"""Runs of the digits classifier for several platforms, which many tests look at."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from convert.emulation import Emulation, find_emulation
from convert.platforms import folder_of
from convert.records import Artifact, Outcome, Report
from convert.serial import from_plain, read_json
from helpers import command
from helpers.full_run import DIGITS


def installed() -> Emulation:
    """The emulation, without which the test is skipped."""
    found = find_emulation()
    if found is None:
        pytest.skip("the toolchain arm64-emulation is not installed: convert toolchain install arm64-emulation")
    return found


@dataclass
class PlatformRun:
    """A run that has ended."""

    done: command.Done
    out: Path

    @cached_property
    def report(self) -> Report:
        """The report, as the records that it is made of."""
        return read_json(Report, self.out / "report.json")

    def plain(self, target: str, platform: str) -> dict[str, Any]:
        """What the file of the report says of an artifact."""
        report = json.loads((self.out / "report.json").read_text(encoding="utf-8"))
        (found,) = (one for one in report["artifacts"] if (one["target"], one["platform"]) == (target, platform))
        return dict(found)

    def outcome(self, target: str, platform: str) -> Outcome:
        """The one outcome of ``target`` for ``platform``."""
        (found,) = (one for one in self.report.artifacts if (one.target, one.platform) == (target, platform))
        return found

    def folder(self, target: str, platform: str) -> Path:
        """Where the artifact lies."""
        return self.out / folder_of(target, "float32", platform)

    def manifest(self, target: str, platform: str) -> dict[str, Any]:
        """What stands beside the artifact."""
        return dict(json.loads((self.folder(target, platform) / "manifest.json").read_text(encoding="utf-8")))

    def artifact(self, target: str, platform: str) -> Artifact:
        """The artifact's record."""
        names = ("target", "precision", "route", "files", "io", "platform", "notes", "versions", "settings")
        manifest = self.manifest(target, platform)
        return from_plain(Artifact, {name: manifest[name] for name in names})


def make(place: Path, targets: str, platforms: str, *more: str) -> PlatformRun:
    """Run ``convert`` on the digits classifier; its output goes below ``place``."""
    words: list[str | Path] = [
        DIGITS / "digits.pt2",
        "--samples",
        DIGITS / "samples.npz",
        "-t",
        targets,
        "--platform",
        platforms,
        *more,
    ]
    return PlatformRun(command.run(*words, "--out", "out", cwd=place), place / "out")

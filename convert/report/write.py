"""Write a report and everything beside it into the output folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from convert.outdir import REPORT
from convert.platforms import folder_of
from convert.records import Artifact, Outcome, Report
from convert.report.assemble import hash_files
from convert.report.markdown import render
from convert.serial import to_plain, write_json


def write_report(folder: Path, report: Report, built: Sequence[tuple[Outcome, Artifact | None]]) -> None:
    """Write manifests, the index of the golden cases, ``report.md`` and, last, ``report.json`` with every hash."""
    shutil.rmtree(folder / "work")
    for outcome, artifact in built:
        place = _place(folder, outcome)
        if artifact is not None and place.is_dir():
            write_json(place / "manifest.json", _manifest(report, outcome, artifact))
    write_json(folder / "golden" / "index.json", report.golden)
    artifacts = tuple(
        replace(outcome, files=tuple(hash_files(folder, _place(folder, outcome)))) for outcome in report.artifacts
    )
    report = replace(report, artifacts=artifacts)
    (folder / "report.md").write_text(render(report), encoding="utf-8")
    write_json(folder / REPORT, replace(report, files=tuple(hash_files(folder, folder))))


def _place(folder: Path, outcome: Outcome) -> Path:
    return folder / folder_of(outcome.target, outcome.precision, outcome.platform)


def _manifest(report: Report, outcome: Outcome, artifact: Artifact) -> dict[str, object]:
    """What the people who deploy an artifact need to know: names, dtypes, layouts and sizes inside it."""
    return {
        "schema_version": report.schema_version,
        "target": artifact.target,
        "precision": artifact.precision,
        "platform": artifact.platform,
        "route": artifact.route,
        "files": list(artifact.files),
        "io": to_plain(artifact.io),
        "dims": to_plain(report.golden.dims),
        "notes": list(artifact.notes),
        "versions": artifact.versions,
        "settings": artifact.settings,
        "status": outcome.status,
        "proven": to_plain(outcome.proven),
        "operators": to_plain(artifact.operators),
        "source": report.model,
    }

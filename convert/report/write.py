"""Write a report and everything beside it into the output folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from convert.outdir import REPORT
from convert.records import Artifact, Outcome, Report
from convert.report.assemble import hash_files
from convert.report.markdown import render
from convert.serial import to_plain, write_json


def write_report(folder: Path, report: Report, built: Sequence[tuple[Outcome, Artifact | None]]) -> None:
    """Write manifests, the index of the golden cases, ``report.md`` and, last, ``report.json`` with every hash."""
    shutil.rmtree(folder / "work")
    for outcome, artifact in built:
        if artifact is not None and (folder / outcome.target / outcome.precision).is_dir():
            write_json(folder / outcome.target / outcome.precision / "manifest.json", _manifest(report, artifact))
    write_json(folder / "golden" / "index.json", report.golden)
    artifacts = tuple(
        replace(o, files=tuple(hash_files(folder, folder / o.target / o.precision))) for o in report.artifacts
    )
    report = replace(report, artifacts=artifacts)
    (folder / "report.md").write_text(render(report), encoding="utf-8")
    write_json(folder / REPORT, replace(report, files=tuple(hash_files(folder, folder))))


def _manifest(report: Report, artifact: Artifact) -> dict[str, object]:
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
        "operators": to_plain(artifact.operators),
        "source": report.model,
    }

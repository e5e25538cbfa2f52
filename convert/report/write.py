"""Write a report and everything beside it into the output folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from convert.outdir import REPORT
from convert.platforms import MANIFEST, folder_of
from convert.records import Artifact, Outcome, Report, Status
from convert.report.assemble import hash_files
from convert.report.markdown import render
from convert.serial import to_plain, write_json
from convert.targets.trt_host.folder import RECIPE

#: Beside a recipe: the report of the run that made it, as far as it speaks of this artifact.
ORIGIN = "origin.json"


def write_report(folder: Path, report: Report, built: Sequence[tuple[Outcome, Artifact | None]]) -> None:
    """Write manifests, the index of the golden cases, ``report.md`` and, last, ``report.json`` with every hash."""
    shutil.rmtree(folder / "work")
    finish_report(folder, report, built)


def finish_report(folder: Path, report: Report, built: Sequence[tuple[Outcome, Artifact | None]]) -> Report:
    """The same for a folder that is only changed: manifests of ``built`` are written, others stay. Gives the report."""
    for outcome, artifact in built:
        place = _place(folder, outcome)
        if artifact is not None and place.is_dir():
            write_json(place / MANIFEST, _manifest(report, outcome, artifact))
    write_json(folder / "golden" / "index.json", report.golden)
    _write_origins(folder, report)
    artifacts = tuple(
        replace(outcome, files=tuple(hash_files(folder, _place(folder, outcome)))) for outcome in report.artifacts
    )
    report = replace(report, artifacts=artifacts)
    (folder / "report.md").write_text(render(report), encoding="utf-8")
    report = replace(report, files=tuple(hash_files(folder, folder)))
    write_json(folder / REPORT, report)
    return report


def _write_origins(folder: Path, report: Report) -> None:
    """Give every recipe its part of the report: a host that has only the recipe goes on from there."""
    for outcome in report.artifacts:
        if outcome.status is Status.DEFERRED and (_place(folder, outcome) / RECIPE).is_file():
            write_json(_place(folder, outcome) / ORIGIN, replace(report, artifacts=(outcome,), files=()))


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

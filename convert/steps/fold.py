"""Fold what a GPU host made of a recipe into the report of the run that made the recipe.

That host's word is not taken: the outputs of its engine are compared with the source here, by the rules that hold for
every other artifact. What cannot be compared is failed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from convert.cases import left_out
from convert.errors import ConvertError, InputError
from convert.jobs import Ended
from convert.outdir import sha256_of
from convert.platforms import MANIFEST, folder_of
from convert.records import Artifact, Check, Latency, Outcome, Report, RouteResult, Status
from convert.records_engine import GpuTimes
from convert.results import RESULT, EngineResult
from convert.serial import from_plain
from convert.targets.trt_host.folder import RECIPE
from convert.validators.verdict import verdict

#: Runs a stage in the environment that compares outputs.
Compare = Callable[[str, dict[str, Any]], Ended]
_OUTPUTS = "outputs"


@dataclass(frozen=True)
class Folded:
    """The new outcome, with the artifact where it passed."""

    outcome: Outcome
    artifact: Artifact | None


def deferred_for(root: Path, report: Report, result: EngineResult) -> Outcome:
    """The row of the report that ``result`` is the end of.

    Raises:
        InputError: there is none, it has ended already, or its recipe was changed.
    """
    for outcome in report.artifacts:
        file = place_of(root, outcome) / RECIPE
        if not file.is_file() or sha256_of(file) != result.recipe:
            continue
        name = f"{outcome.target} {outcome.precision}"
        if outcome.status is not Status.DEFERRED:
            raise InputError(f"{name} is already {outcome.status} in the report in {root}; nothing is left to merge")
        return outcome
    raise InputError(
        f"{result.folder / RESULT} is of another recipe than those in {root}; give the output folder of the run that "
        "made its recipe"
    )


def place_of(root: Path, outcome: Outcome) -> Path:
    """The folder of an artifact."""
    return root / folder_of(outcome.target, outcome.precision, outcome.platform)


def require_unchanged(root: Path, report: Report) -> None:
    """Raise ``InputError`` where a file that a verdict rests on is not what the report says: golden cases, recipes."""
    for record in report.files:
        path = root / record.path
        if not record.path.startswith("golden/") and path.name != RECIPE:
            continue
        if not path.is_file() or sha256_of(path) != record.sha256:
            state = "was changed" if path.is_file() else "is missing"
            raise InputError(f"{path} {state} since the report was written; take the folder as the run left it")


def fold(root: Path, report: Report, outcome: Outcome, result: EngineResult, compare: Compare) -> Folded:
    """Judge ``result`` and put its engine beside the recipe below ``root``, an output folder in the making.

    Raises:
        ConvertError: the outputs could not be compared.
    """
    place = place_of(root, outcome)
    artifact = _artifact(place, outcome, result)
    checks = _compared(root, report, outcome, artifact, result, compare)
    judged = verdict(checks, report.golden, left_out(artifact, report.golden)) if checks else None
    on = result.gpu.name if result.gpu else "the other host"
    stage, reason = result.stage, f"on {on}: {result.reason}" if result.status == "failed" else ""
    if not reason and (judged is None or not judged.passed):
        stage, reason = "check", judged.reason if judged else "there were no outputs to compare"
    status = Status.FAILED if reason else Status.PASSED
    # The result goes in whole, so that whoever doubts it can compare again.
    for name in (RESULT, *result.outputs.values()):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(result.folder / name, place / name)
    if status is Status.PASSED:
        shutil.copyfile(result.folder / result.engine, place / result.engine)
    worst = judged.worst.figure if judged and judged.worst else None
    ended = replace(
        outcome,
        status=status,
        stage=stage if reason else "check",
        reason=reason,
        advice="",
        route="engine",
        seconds=round(outcome.seconds + result.seconds, 3),
        checks=checks,
        latency=None if reason else _latency(report, result),
        routes=(*outcome.routes, RouteResult("engine", status, stage, reason, result.seconds, worst_error=worst)),
        notes=(*outcome.notes, f"built, checked and timed on {on}; its outputs were compared with the source here"),
        versions=outcome.versions | result.versions,
        gpu=result.gpu,
        engine=result.summary,
    )
    return Folded(ended, None if reason else artifact)


def _artifact(place: Path, outcome: Outcome, result: EngineResult) -> Artifact:
    recipe = json.loads((place / RECIPE).read_text(encoding="utf-8"))
    asked = recipe.get("settings", {})
    known = _settings(place / MANIFEST)
    built = {"hardware": asked.get("hardware", "none"), "flags": list(asked.get("flags", ()))}
    return Artifact(
        outcome.target,
        outcome.precision,
        "engine",
        (result.engine, *sorted({RECIPE, *recipe["sha256"]})),
        outcome.io,
        outcome.platform,
        outcome.notes,
        outcome.versions | result.versions,
        settings={**known, "built_on": result.gpu, **built},
        operators=outcome.operators,
    )


def _settings(manifest: Path) -> dict[str, Any]:
    """What the build of the recipe noted down, such as layers in float32; a folder copied by hand may lack it."""
    try:
        found = json.loads(manifest.read_text(encoding="utf-8"))["settings"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _compared(
    root: Path, report: Report, outcome: Outcome, artifact: Artifact, result: EngineResult, compare: Compare
) -> tuple[Check, ...]:
    """Every check of the outputs; none where the host did not come so far."""
    if not result.outputs:
        return ()
    ended = compare(
        _OUTPUTS,
        {
            "artifact": artifact,
            "golden": report.golden,
            "golden_folder": str(root / "golden"),
            "recipe": str(place_of(root, outcome)),
            "outputs": result.outputs,
            "outputs_folder": str(result.folder),
            "least_sqnr": report.options.get("least_sqnr"),
        },
    )
    if not ended.ok:
        raise ConvertError(f"the outputs in {result.folder} could not be compared: {ended.answer.reason}")
    return from_plain(tuple[Check, ...], ended.value["checks"])


def _latency(report: Report, result: EngineResult) -> Latency | None:
    """The other host's times; there is no ratio, since nothing ran beside it."""
    said = result.latency
    if not said:
        return None
    case = next((case for case in report.golden.cases if case.name == said["case"]), None)
    parts = {key: float(said[key]) for key in ("host_to_device_ms", "compute_ms", "device_to_host_ms", "memory_mib")}
    return Latency(
        threads=1,
        dims=case.dims if case else {},
        samples=int(said["samples"]),
        rounds=1,
        p50_ms=float(said["p50_ms"]),
        p90_ms=float(said["p90_ms"]),
        p99_ms=float(said["p99_ms"]),
        throughput_per_s=1e3 / float(said["p50_ms"]),
        peak_memory_mib=float(said["peak_memory_mib"]),
        ratio_to_onnxruntime=None,
        ratio_to_eager=None,
        gpu=GpuTimes(**parts),
    )

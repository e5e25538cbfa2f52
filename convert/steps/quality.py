"""How good an integer artifact is on real data, and whether that meets the user's gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convert.context import Context, Say
from convert.errors import StageError
from convert.precisions import LEAST_AGREEMENT, LEAST_SQNR_DB
from convert.records import Artifact, Golden, Quality, Score
from convert.serial import from_plain
from convert.steps.job import Job
from convert.targets import load_target


@dataclass(frozen=True)
class Assessment:
    """What was measured; ``reason`` says which gate it misses, empty if none."""

    quality: tuple[Quality, ...] = ()
    score: Score | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()


def assess(job: Job, name: str, artifact: Artifact, folder: Path) -> Assessment:
    """Measure an artifact that passed its checks.

    Args:
        job: what was to be made.
        name: for logs.
        artifact: its record.
        folder: its files.
    """
    context, asked = job.context, job.context.options.quantization
    if asked.calibration is None and asked.evaluation is None and context.options.samples is None:
        return Assessment(notes=("there is no real data, so the quality was not measured",))
    try:
        reference = _reference(context, job.golden, job.say)
        if "note" in reference:
            return Assessment(notes=(reference["note"],))
        quality, predictions = _measure(job, name, artifact, folder, reference)
        score = _score(context, job.golden, name, predictions, reference, job.say) if asked.metric else None
    except StageError as error:  # what cannot be measured has not met its gate
        return Assessment(reason=f"the quality could not be measured: {error.reason}")
    least = LEAST_SQNR_DB if asked.least_sqnr is None else asked.least_sqnr
    return Assessment(quality, score, _missed(job.golden, quality, score, least))


def _missed(golden: Golden, quality: Sequence[Quality], score: Score | None, least_sqnr: float) -> str:
    """The gate that is missed, by the output that misses it most; empty where all are met."""
    floats = {spec.name for spec in golden.outputs if spec.dtype.startswith(("float", "bfloat"))}
    noisy = [one for one in quality if one.output in floats and not one.sqnr_db >= least_sqnr]
    if noisy:
        worst = min(noisy, key=lambda one: one.sqnr_db)
        return (
            f"output {worst.output} has an SQNR of {worst.sqnr_db:.1f} dB on {worst.samples} samples, and "
            f"{least_sqnr:g} dB are wanted (--min-sqnr)"
        )
    other = [one for one in quality if one.output not in floats and not (one.agreement or 0) >= LEAST_AGREEMENT]
    if other:
        return (
            f"{other[0].agreement or 0:.1%} of the elements of output {other[0].output} are the source's on "
            f"{other[0].samples} samples, and {LEAST_AGREEMENT:.0%} are wanted"
        )
    if score is not None and not score.passed:
        return (
            f"the metric fell from {score.source:.4g} to {score.artifact:.4g}, by more than --max-drop "
            f"{score.max_drop:g}"
        )
    return ""


def _reference(context: Context, golden: Golden, say: Say) -> dict[str, Any]:
    """The source on real data, run once for all artifacts."""
    with context.once:
        if context.reference is None:
            folder = context.work / "reference"
            folder.mkdir()
            args = _data_args(context, golden) | {"ref": context.options.ref, "folder": str(folder)}
            ended = context.run("reference", context.core(), "reference", args, say)
            asked = context.options.quantization
            if (
                ended.answer.error == "input"
                and asked.calibration is None
                and asked.evaluation is None
                and asked.metric is None
            ):
                # Samples may have any sizes; each was a case of the checks at its own.
                note = f"the quality is that of the checks: {ended.answer.reason}"
                context.reference = {"note": note}
                return context.reference
            if not ended.ok:
                raise StageError(f"the source on real data: {ended.answer.reason}")
            context.reference = {"reference": str(folder), "batches": ended.value["batches"]}
        return context.reference


def _data_args(context: Context, golden: Golden) -> dict[str, Any]:
    options = context.options
    return {
        "golden": golden,
        "quantization": context.quantization,
        "samples": options.samples,
        "code": options.ref.code,
        "trust_pickle": options.ref.trust_pickle,
    }


def _measure(
    job: Job, name: str, artifact: Artifact, folder: Path, reference: dict[str, Any]
) -> tuple[tuple[Quality, ...], str]:
    context = job.context
    predictions = str(context.work / f"{name}-predictions.npz") if context.options.quantization.metric else ""
    args = reference | {
        "artifact": artifact,
        "folder": str(folder),
        "threads": context.options.threads,
        "predictions": predictions,
    }
    python = context.runtime(load_target(artifact.target))
    ended = context.run(f"{name}-quality", python, "quality", args, job.say)
    if not ended.ok:
        raise StageError(ended.answer.reason)
    quality = from_plain(tuple[Quality, ...], ended.value["quality"])
    if {one.output for one in quality} != {spec.name for spec in job.golden.outputs}:
        raise StageError("an output was not measured")
    return quality, predictions


def _score(context: Context, golden: Golden, name: str, predictions: str, reference: dict[str, Any], say: Say) -> Score:
    args = _data_args(context, golden) | reference | {"predictions": predictions}
    ended = context.run(f"{name}-score", context.core(), "score", args, say)
    if not ended.ok:
        raise StageError(ended.answer.reason)
    asked = context.options.quantization
    source, artifact = float(ended.value["source"]), float(ended.value["artifact"])
    passed = asked.max_drop is None or source - artifact <= asked.max_drop
    samples = sum(count for _, count, _ in reference["batches"])
    return Score(str(asked.metric), samples, source, artifact, asked.max_drop, passed)

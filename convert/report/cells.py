"""The words and figures that table and Markdown share."""

from __future__ import annotations

from convert.platforms import MANIFEST, host_platform
from convert.providers import CPU
from convert.records import Check, Latency, Operators, Outcome, Quality, Score
from convert.records_engine import Placement

COLUMNS = ("target", "precision", "status", "route", "error", "of limit", "size", "p50 ms", "× ort", "× eager", "s")


def worst_check(outcome: Outcome) -> Check | None:
    """The check that came closest to its limit, or went furthest over it."""
    measured = [check for check in outcome.checks if check.limit > 0 or not check.passed]
    return max(measured, key=lambda check: check.figure / check.limit if check.limit else float("inf"), default=None)


def size_text(size: int) -> str:
    """A size in B, KiB or MiB."""
    for unit, scale in (("MiB", 2**20), ("KiB", 2**10)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} B"


def target_text(outcome: Outcome) -> str:
    """The target, with the platform where that is not this host's."""
    foreign = outcome.platform != host_platform()
    return f"{outcome.target} {outcome.platform}" if foreign else outcome.target


def row(outcome: Outcome) -> tuple[str, ...]:
    """One cell per column of :data:`COLUMNS`."""
    worst = worst_check(outcome)
    size = _size(outcome)
    return (
        target_text(outcome),
        outcome.precision,
        str(outcome.status),
        outcome.route or "–",
        "–" if worst is None else f"{worst.figure:.1e}",
        "–" if worst is None or not worst.limit else f"{worst.figure / worst.limit:.0%}",
        size_text(size) if size else "–",
        *_latency_cells(outcome.latency),
        f"{outcome.seconds:.1f}",
    )


def _size(outcome: Outcome) -> int:
    """Bytes of what is deployed: of an engine that was built from a recipe not the recipe beside it."""
    engines = [file.size for file in outcome.files if file.path.endswith(".engine")]
    return sum(engines or (file.size for file in outcome.files if not file.path.endswith(MANIFEST)))


def _latency_cells(latency: Latency | None) -> tuple[str, str, str]:
    if latency is None:
        return "–", "–", "–"
    return f"{latency.p50_ms:.3g}", _ratio(latency.ratio_to_onnxruntime), _ratio(latency.ratio_to_eager)


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def remarks(outcome: Outcome) -> list[str]:
    """What must be said below the table: reasons, advice, notes and warnings of the timing."""
    lines = []
    if outcome.reason:
        where = f" at {outcome.stage}" if outcome.stage else ""
        lines.append(f"{outcome.status}{where}: {outcome.reason}")
    if outcome.advice:
        lines.append(f"next: {outcome.advice}")
    lines += [_quality_line(one) for one in outcome.quality]
    if outcome.score is not None:
        lines.append(_score_line(outcome.score))
    if outcome.operators is not None:
        lines.append(_operators_line(outcome.operators))
    if outcome.placement is not None:
        lines.append(_placement_line(outcome.placement))
    lines += outcome.notes
    lines += _device_lines(outcome)
    if outcome.latency is not None:
        lines += [f"latency: {warning}" for warning in outcome.latency.warnings]
    return lines


def _device_lines(outcome: Outcome) -> list[str]:
    """What was asked beforehand, and what the artifact was built and run on."""
    lines = []
    if outcome.gate is not None:
        tool = f"{outcome.gate.tool}: " if outcome.gate.tool else ""
        lines.append(f"parser gate {outcome.gate.verdict}: {tool}{outcome.gate.reason}")
    if outcome.gpu is not None:
        gpu = outcome.gpu
        lines.append(
            f"GPU: {gpu.name}, compute capability {gpu.compute_capability}, driver {gpu.driver or 'not known'}, CUDA "
            f"{gpu.cuda}, TensorRT {gpu.tensorrt}"
        )
    if outcome.engine is not None:
        lines.append(f"engine: {outcome.engine.layers} layers; {_counts(outcome.engine.precisions)}")
    if outcome.latency is not None and outcome.latency.gpu is not None:
        times = outcome.latency.gpu
        lines.append(
            f"on the GPU: host to device {times.host_to_device_ms:.3g} ms, compute {times.compute_ms:.3g} ms, "
            f"device to host {times.device_to_host_ms:.3g} ms, {times.memory_mib:.0f} MiB"
        )
    return lines


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "precisions not said"


def _quality_line(quality: Quality) -> str:
    agreement = "" if quality.agreement is None else f", agreement {quality.agreement:.1%}"
    return (
        f"quality of {quality.output} on {quality.samples} samples: SQNR {quality.sqnr_db:.1f} dB, cosine "
        f"{quality.cosine:.6f}, largest error {quality.max_error:.2g}{agreement}"
    )


def _score_line(score: Score) -> str:
    gate = "" if score.max_drop is None else f", {'within' if score.passed else 'beyond'} --max-drop {score.max_drop:g}"
    return f"metric on {score.samples} samples: {score.artifact:.4g}, the source {score.source:.4g}{gate}"


def _operators_line(operators: Operators) -> str:
    floating = ", ".join(f"{name} {count}" for name, count in operators.floating.items()) or "none"
    return f"operators in integers: {sum(operators.integer.values())}; in float: {floating}"


def _placement_line(placement: Placement) -> str:
    others = ", ".join(f"{name} {count}" for name, count in placement.operators.items() if name != CPU) or "none"
    on_cpu = f"{placement.operators.get(CPU, 0)} ({placement.cpu_share:.1%})"
    return f"operators on {others}; on the CPU: {on_cpu}"

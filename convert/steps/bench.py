"""Step 4: time the artifacts that passed, one at a time, with nothing else running.

Artifact, onnxruntime and the eager source each wait in a process of their own; the parent lets them run in turn.
"""

from __future__ import annotations

import contextlib
import queue
import shutil
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from convert.context import Context, Say, ToolchainMissing
from convert.errors import StageError
from convert.jobs import CannotWrite, Ended, Interrupted, Worker, WorkerPython
from convert.platforms import EMULATED
from convert.records import Artifact, Golden, Kind, Latency, Status
from convert.records_engine import GpuTimes
from convert.serial import from_plain_or_none
from convert.steps.export import Graph
from convert.steps.job import Built
from convert.steps.places import HERE, Where
from convert.targets import load_target
from convert.targets.onnx import io_as_exported
from convert.targets.onnx_files import onnx_files
from convert.validators.latency import Ratio, ratio, summarise, warnings_for

CASE = "opt-draw0"
_ROUNDS = 12
_MOST_RUNS = 200
_FEWEST_RUNS = 3
_SLOW_SECONDS = 0.25
_POLL_SECONDS = 0.2


class _Stopwatch:
    """One session in a worker that runs when it is told to."""

    def __init__(self, context: Context, name: str, python: WorkerPython, args: dict[str, Any]) -> None:
        self._context = context
        self.name = name
        try:
            self._worker: Worker = context.start(f"bench-{name}", python, "bench", args)
        except CannotWrite as error:
            raise StageError(str(error)) from error
        except OSError as error:
            raise StageError(f"the interpreter {python.python} cannot be started ({error})") from error
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._worker.events, args=(self._events.put,), daemon=True).start()
        self._await("ready")
        self.once = max(self.run(1)[0], 1e-7)

    def run(self, runs: int) -> list[float]:
        """Seconds of each of ``runs`` runs."""
        self._worker.send({"runs": runs})
        times = self._await("times")
        return [float(value) for value in times]

    def _await(self, key: str) -> Any:
        deadline = time.monotonic() + self._context.options.timeout
        while True:
            try:
                event = self._events.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                if not self._worker.running():
                    raise StageError(f"{self.name}: {self.close().answer.reason}") from None
                self._context.runner.raise_if_stopped()
                if time.monotonic() > deadline:
                    self._worker.kill(f"no answer within {self._context.options.timeout:g} s (--timeout)")
                continue
            if key in event:
                return event[key]

    def close(self) -> Ended:
        """Let the worker end and give its answer."""
        self._worker.close_commands()
        return self._context.runner.finish(self._worker)

    def abandon(self) -> None:
        """End a worker that nothing more is expected of, and that may hang."""
        self._worker.kill("it was not needed any more")
        with contextlib.suppress(Interrupted):
            self._context.runner.finish(self._worker)


class _References:
    """What artifacts are compared with, by name; one that crashes is dropped, and its ratio is then absent."""

    def __init__(self) -> None:
        self.watches: dict[str, _Stopwatch] = {}

    def close(self) -> None:
        """End those that are left; a reference owes nobody an answer."""
        for watch in self.watches.values():
            watch.abandon()


def bench_all(
    context: Context,
    golden: Golden,
    graphs: tuple[Graph, ...],
    built: list[Built],
    places: Sequence[Where],
    say: Say,
) -> list[Built]:
    """Give every passed artifact its latency; one that cannot be run repeatedly becomes a failure.

    Those that were proven on a device are timed there, without references; those under emulation not at all.
    """
    by_platform = {place.platform: place for place in places}
    here = [one for one in built if by_platform[one.outcome.platform].proven is None]
    timed = iter(_bench_here(context, golden, graphs, here, say))
    return [
        next(timed)
        if by_platform[one.outcome.platform].proven is None
        else _bench_there(context, golden, one, by_platform[one.outcome.platform], say)
        for one in built
    ]


def _bench_there(context: Context, golden: Golden, built: Built, place: Where, say: Say) -> Built:
    if not place.timed:
        proven = built.folder is not None and bool(built.outcome.checks)
        return replace(built, outcome=replace(built.outcome, latency_reason=EMULATED)) if proven else built
    if not context.options.bench_seconds:
        return replace(built, outcome=replace(built.outcome, latency_reason="not asked for"))
    if not (built.outcome.status is Status.PASSED or (built.outcome.checks and built.folder is not None)):
        return built
    return _bench(context, golden, built, _References(), say, place)


def _bench_here(
    context: Context, golden: Golden, graphs: tuple[Graph, ...], built: list[Built], say: Say
) -> list[Built]:
    if not context.options.bench_seconds:
        return [replace(one, outcome=replace(one.outcome, latency_reason="not asked for")) for one in built]
    if not any(one.outcome.status is Status.PASSED for one in built):
        return built
    references = _start_references(context, golden, graphs)
    try:
        return [
            _bench(context, golden, one, references, say) if one.outcome.status is Status.PASSED else one
            for one in built
        ]
    finally:
        references.close()


def _common(context: Context, golden: Golden) -> dict[str, Any]:
    return {
        "golden": golden,
        "golden_folder": str(context.golden_folder),
        "case": CASE,
        "threads": context.options.threads,
        "ref": context.options.ref,
        "what": "artifact",
    }


def _start_references(context: Context, golden: Golden, graphs: tuple[Graph, ...]) -> _References:
    found = _References()
    wanted: dict[str, dict[str, Any]] = {}
    if graphs:
        artifact = Artifact("onnx", "float32", graphs[0].route, onnx_files(graphs[0].file), io_as_exported(golden))
        wanted["onnxruntime"] = {"artifact": artifact, "folder": str(graphs[0].file.parent)}
    if golden.kind is not Kind.ONNX:
        wanted["eager"] = {"what": "eager"}
    for name, args in wanted.items():
        # One that cannot be started is left out; its log says why.
        with contextlib.suppress(StageError):
            found.watches[name] = _Stopwatch(context, name, context.core(), _common(context, golden) | args)
    return found


def _bench(
    context: Context, golden: Golden, built: Built, references: _References, say: Say, place: Where = HERE
) -> Built:
    outcome = built.outcome
    say(f"timing {outcome.target} {outcome.precision}" + (f" on {place.platform}" if place.args else ""))
    try:
        latency = _measure(context, golden, built, references, place)
    except (StageError, ToolchainMissing) as error:
        reason = f"it passed the checks but could not be run repeatedly: {error}"
        if built.folder is not None:
            shutil.rmtree(built.folder)  # what failed must not lie where it could be taken for what passed
        return Built(replace(outcome, status=Status.FAILED, stage="latency", reason=reason))
    return replace(built, outcome=replace(outcome, latency=latency))


def _measure(context: Context, golden: Golden, built: Built, references: _References, place: Where) -> Latency:
    assert built.artifact is not None  # noqa: S101  (it passed)
    python = context.runtime(load_target(built.artifact.target)) if place.args is None else context.core()
    args = _common(context, golden) | {"artifact": built.artifact, "folder": str(built.folder), "place": place.args}
    name = "-".join((built.outcome.target, built.outcome.precision, *(["device"] if place.args else [])))
    subject = _Stopwatch(context, name, python, args)
    try:
        rows = _interleave(subject, references, context.options.bench_seconds)
    except BaseException:
        subject.abandon()
        raise
    ended = subject.close()
    if not ended.ok:
        raise StageError(ended.answer.reason)
    latency = _latency(context, golden, rows, float(ended.value["peak_memory_mib"]))
    return replace(latency, gpu=from_plain_or_none(GpuTimes, ended.value.get("gpu")))


def _interleave(subject: _Stopwatch, references: _References, seconds: float) -> dict[str, list[list[float]]]:
    """Times per name, round and run; the artifact's own under the empty name. Each gets the same share of the time."""
    share = seconds / _ROUNDS / (1 + len(references.watches))
    rows: dict[str, list[list[float]]] = {"": [], **{name: [] for name in references.watches}}
    for _ in range(_ROUNDS):
        rows[""].append(subject.run(_runs_in(share, subject.once)))
        for name, watch in list(references.watches.items()):
            try:
                rows[name].append(watch.run(_runs_in(share, watch.once)))
            except StageError:
                del references.watches[name], rows[name]
    return rows


def _runs_in(share: float, once: float) -> int:
    """Runs of one block: what fits into its share, but enough for percentiles where a run is not slow."""
    least = _FEWEST_RUNS if once < _SLOW_SECONDS else 1
    return max(least, min(_MOST_RUNS, round(share / once)))


def _latency(context: Context, golden: Golden, rows: dict[str, list[list[float]]], peak: float) -> Latency:
    times = [value for block in rows[""] for value in block]
    figures = summarise(times)
    ratios = {name: ratio(rows[""], blocks) for name, blocks in rows.items() if name}
    to_onnxruntime, to_eager = ratios.get("onnxruntime"), ratios.get("eager")
    case = next(case for case in golden.cases if case.name == CASE)
    return Latency(
        context.options.threads,
        case.dims,
        len(times),
        len(rows[""]),
        figures.p50 * 1e3,
        figures.p90 * 1e3,
        figures.p99 * 1e3,
        1 / figures.p50,
        peak,
        _median(to_onnxruntime),
        _median(to_eager),
        _spread(to_onnxruntime),
        _spread(to_eager),
        warnings_for(times, [to_onnxruntime, to_eager]),
    )


def _median(one: Ratio | None) -> float | None:
    return None if one is None else one.median


def _spread(one: Ratio | None) -> tuple[float, ...]:
    return () if one is None else (one.low, one.high)

"""The whole pipeline in one process, and a second look at what passed: one start of torch instead of ten per model.

What belongs to another toolchain still runs in a worker of its own. As a program it reads lines ``NAME TARGET FOLDER``
and answers each with one line of JSON: a process of its own, since what runs here moves to other folders and may leave
its mark on torch.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from convert import pipeline, toolchains
from convert.cases import Plan
from convert.context import Context
from convert.errors import InputError
from convert.jobs import Ended, Limits, Runner, WorkerPython
from convert.options import Options
from convert.progress import Progress
from convert.records import Artifact, Dim, Golden, InputSpec, Kind, ModelRef, Outcome, Status
from convert.serial import from_plain, read_json
from convert.specs import parse_dim, parse_input, shape_at
from convert.targets import load_target
from convert.worker import Channel, Job, _run
from helpers.semantic_table import TABLE, Semantic

Feeds = dict[str, Any]
_LIMITS = Limits(300)


@dataclass(frozen=True)
class Result:
    """What became of one model.

    Attributes:
        said: ``passed``, or why not: the reason of the outcome, or the refusal of the run.
        notes: of the source.
        wrong: further inputs on which an artifact that passed was wrong, with what differed.
        size: bytes of the artifact.
    """

    said: str
    notes: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    size: int = 0


class InProcess(Runner):
    """Runs the stages of the core toolchain here."""

    def run(
        self,
        name: str,
        python: WorkerPython,
        stage: str,
        args: dict[str, Any],
        say: Callable[[str], None] | None = None,
        threads: int | None = None,
        seconds: float | None = None,
    ) -> Ended:
        """See :meth:`Runner.run`."""
        core = toolchains.find("core")
        if core is None or str(python.python) != str(core.python):
            return super().run(name, python, stage, args, say, threads, seconds)
        start = time.monotonic()
        self._work.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=self._work))
        log = self._logs / f"{name}-{scratch.name}.log"
        with _quietly(scratch, log):
            answer = _run(Job(stage, args, "", 0), Channel(None, None))
        return Ended(answer, time.monotonic() - start, log)


@contextlib.contextmanager
def _quietly(scratch: Path, log: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(scratch)
    try:
        with (
            warnings.catch_warnings(),
            log.open("w", encoding="utf-8") as file,
            contextlib.redirect_stdout(file),
            contextlib.redirect_stderr(file),
        ):
            yield
    finally:
        os.chdir(before)


def convert_here(case: Semantic, target: str, folder: Path) -> Result:
    """Convert ``case`` to ``target`` below ``folder``, and try what passed on further inputs."""
    options = _options(case, target, folder / "out")
    setattr(pipeline, "Runner", InProcess)  # noqa: B010  (the process is for this alone)
    try:
        report = pipeline.run(options, [case.name], Progress(Console(file=io.StringIO()), quiet=True))
    except InputError as error:
        return Result(str(error))
    (outcome,) = report.artifacts
    if outcome.status is not Status.PASSED:
        return Result(outcome.reason, report.golden.notes)
    wrong = _second_look(case, options, report.golden, outcome, folder)
    size = sum(file.size for file in outcome.files)
    return Result("passed", report.golden.notes, wrong, size)


def _options(case: Semantic, target: str, out: Path) -> Options:
    return Options(
        ref=ModelRef(case.file, Kind.FACTORY, case.name),
        targets=(target,),
        precisions=("float32",),
        inputs=tuple(map(parse_input, case.inputs)),
        dims=tuple(map(parse_dim, case.dims)),
        samples=None,
        opset=None,
        out=out,
        timeout=300.0,
        memory=None,
        threads=1,
        jobs=1,
        bench_seconds=0.0,
        allow_deferred=False,
    )


def _second_look(case: Semantic, options: Options, golden: Golden, outcome: Outcome, folder: Path) -> tuple[str, ...]:
    """Compare the artifact with the source on inputs of other kinds and sizes than the pipeline draws."""
    from convert.models.load import load
    from convert.models.run import plan_call
    from convert.stages.golden import run_case
    from convert.stages.running import Source

    loaded = load(options.ref)
    source = Source(loaded, plan_call(loaded, tuple(spec.name for spec in golden.inputs)), False, case.file)
    place = folder / "second"
    for name in ("golden", "jobs", "logs"):
        (place / name).mkdir(parents=True)
    cases = []
    for name, sizes, feeds in other_inputs(golden.inputs, golden.dims, case.feeds):
        with contextlib.suppress(InputError):  # sizes that the source itself refuses
            cases.append(run_case(source, Plan(name, "draw", sizes, 0), feeds, golden.inputs, place / "golden")[0])
    assert len(cases) > len(KINDS) / 2, "the source refused most of the further inputs"
    made = options.out / outcome.target / outcome.precision
    manifest = read_json(dict, made / "manifest.json")
    fields = ("target", "precision", "route", "files", "io", "platform", "notes", "versions", "settings")
    context = Context(options, place, InProcess(place / "jobs", place / "logs", _LIMITS))
    arguments = {
        "artifact": from_plain(Artifact, {name: manifest[name] for name in fields}),
        "folder": str(made),
        "golden": replace(golden, cases=tuple(cases)),
        "golden_folder": str(place / "golden"),
        "threads": 1,
    }
    ended = context.run("second", context.runtime(load_target(outcome.target)), "check", arguments)
    assert ended.ok, ended.answer.reason
    return tuple(f"{one['case']}: {one['detail']}" for one in ended.value["checks"] if not one["passed"])


KINDS = ("normal", "x10", "small", "negative", "positive", "half", "whole", "x1e4", "ramp", "rows", "zeros")


def other_inputs(
    specs: tuple[InputSpec, ...], dims: tuple[Dim, ...], given: tuple[Mapping[str, Any], ...]
) -> Iterator[tuple[str, dict[str, int], Feeds]]:
    """Name, sizes and values of further inputs, within the sizes and ranges that were stated."""
    rng = np.random.default_rng(99)
    usual = {dim.name: dim.opt for dim in dims}
    for number, kind in enumerate(KINDS):
        sizes = usual if number % 3 == 0 else {dim.name: int(rng.integers(dim.min, dim.max + 1)) for dim in dims}
        if number % 5 == 4 and len(dims) > 1:  # all dimensions alike
            alike = max(dim.min for dim in dims)
            sizes = {dim.name: min(max(alike, dim.min), dim.max) for dim in dims}
        yield kind, sizes, {spec.name: _values(rng, kind, spec, shape_at(spec, sizes)) for spec in specs}
    dtypes = {spec.name: spec.dtype for spec in specs}
    for number, feeds in enumerate(given):
        yield f"given{number}", usual, {name: np.array(value, dtypes[name]) for name, value in feeds.items()}


def _values(rng: np.random.Generator, kind: str, spec: InputSpec, shape: tuple[int, ...]) -> Any:
    dtype = np.dtype(spec.dtype)
    count = int(np.prod(shape))
    if dtype.kind == "b":
        share = {"negative": 0.0, "positive": 1.0, "small": 0.1}.get(kind, 0.5)
        return np.asarray(rng.random(shape) < share)
    if dtype.kind in "iu":
        low, high = spec.low or 0, 1 if spec.high is None else spec.high
        fixed = {"negative": low, "positive": high, "zeros": min(max(0, low), high), "whole": (low + high) // 2}
        if kind in fixed:
            return np.full(shape, fixed[kind], dtype)
        if kind == "ramp":
            return (low + np.arange(count) % (high - low + 1)).reshape(shape).astype(dtype)
        return np.asarray(rng.integers(low, high, shape, endpoint=True), dtype)
    normal = np.asarray(rng.standard_normal(shape))
    values = {
        "x10": normal * 10,
        "small": normal * 1e-3,
        "negative": -np.abs(normal) - 0.01,
        "positive": np.abs(normal) + 0.01,
        "half": np.round(normal * 3) + 0.5,
        "whole": np.round(normal * 2),
        "x1e4": normal * 1e4,
        "ramp": (np.arange(count).reshape(shape) - count / 2) / 4,
        "rows": normal * 10.0 ** rng.integers(-4, 4, shape),
        "zeros": normal * 0,
    }.get(kind, normal)
    return np.asarray(values, dtype)


def main() -> None:
    """Answer requests until there are no more."""
    from helpers import semantic_data, semantic_memory, semantic_modules, semantic_numbers  # noqa: F401  (the table)

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # torch prints graphs to standard output, below Python
    for line in sys.stdin:
        name, target, folder = line.rstrip("\n").split(" ", 2)
        result = convert_here(TABLE[name], target, Path(folder))
        print(json.dumps(asdict(result)), file=answers, flush=True)


if __name__ == "__main__":
    main()

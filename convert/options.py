"""What the user asked for, checked as far as that is possible without looking into the model."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from convert.config import Used
from convert.errors import InputError
from convert.paths import is_folder
from convert.platforms import host_platform
from convert.records import Device, Dim, InputSpec, ModelRef, Quantization
from convert.records_engine import EngineOptions
from convert.records_tuning import Tuning
from convert.targets import TARGETS, load_target
from convert.targets.base import Target

LEAST_OPSET = 13
#: More than any machine has; a toolkit asked for a million threads takes all the memory there is.
MOST_THREADS = 1024
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True)
class Options:
    """One run of the pipeline.

    Attributes:
        ref: the model.
        targets, precisions: names, in the order asked for, without repetitions.
        opset: the one asked for; None for the newest that all targets read.
        out: folder to write.
        timeout: seconds that one stage of one route may take.
        memory: bytes of resident memory that one worker may use; None for no limit.
        threads: threads of the checked and timed sessions.
        jobs: targets that are built side by side.
        bench_seconds: time spent on timing one artifact, its references included; 0 for no timing.
        config: the file with options that was used; None if there was none.
        quantization: how integer artifacts are made.
        platforms: what artifacts are for, as ``os/arch``.
        cpus: the CPU to make code for, by platform; the platform's default where none is named.
        devices: where artifacts are proven and timed, each for its own platform.
        engine: what was asked of engines.
        provider: what onnxruntime runs on: ``cpu``, ``cuda`` or ``tensorrt``.
        max_cpu_ops: largest share of operators, 0 to 1, that may run on the CPU under another provider; None for any.
        tuning: what was asked for schedules of tvm.
    """

    ref: ModelRef
    targets: tuple[str, ...]
    precisions: tuple[str, ...]
    inputs: tuple[InputSpec, ...]
    dims: tuple[Dim, ...]
    samples: str | None
    opset: int | None
    out: Path
    timeout: float
    memory: int | None
    threads: int
    jobs: int
    bench_seconds: float
    allow_deferred: bool
    config: Used | None = None
    quantization: Quantization = field(default_factory=Quantization)
    platforms: tuple[str, ...] = field(default_factory=lambda: (host_platform(),))
    cpus: dict[str, str] = field(default_factory=dict)
    devices: tuple[Device, ...] = ()
    engine: EngineOptions = field(default_factory=EngineOptions)
    provider: str = "cpu"
    max_cpu_ops: float | None = None
    tuning: Tuning = field(default_factory=Tuning)

    @property
    def work(self) -> tuple[tuple[Target, str], ...]:
        """Every target with every precision asked for."""
        return tuple((target, precision) for target in map(load_target, self.targets) for precision in self.precisions)


def parse_targets(text: str) -> tuple[str, ...]:
    """Read ``--target``: names with commas between them.

    Raises:
        InputError: a name is not known.
    """
    return _choices("--target", text, tuple(TARGETS))


def parse_precisions(text: str, targets: Sequence[str]) -> tuple[str, ...]:
    """Read ``--precision``; every target must offer at least one of them.

    Raises:
        InputError: a precision is not known, or a target offers none of those asked for.
    """
    offered = {name: load_target(name).precisions for name in targets}
    known = tuple(dict.fromkeys(precision for name in TARGETS for precision in load_target(name).precisions))
    asked = _choices("--precision", text, known)
    for name, precisions in offered.items():
        if not set(asked) & set(precisions):
            raise InputError(
                f"target {name} offers none of the precisions {', '.join(asked)}; it offers {', '.join(precisions)}"
            )
    return asked


def _choices(option: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    asked = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    unknown = [name for name in asked if name not in known]
    if unknown or not asked:
        raise InputError(
            f"{option} {text!r} names {unknown[0] if unknown else 'nothing'}; choose from "
            f"{', '.join(known)} (several with commas between them)"
        )
    return asked


def parse_memory(text: str, option: str = "--memory") -> int:
    """Read a size: a number with K, M, G or T, as in ``8G`` or ``512MiB``; plain numbers are bytes.

    Raises:
        InputError: the text is not of that form.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    size = float(match[1]) * _UNITS[match[2].upper()] if match is not None else 0.0
    if size < 1 or size == math.inf:
        raise InputError(f"{option} {text!r} is not a size; write for example 8G or 512M")
    return int(size)


def parse_code(texts: Sequence[str]) -> tuple[str, ...]:
    """Read ``--code``: folders, which become absolute, since workers run in folders of their own.

    Raises:
        InputError: one is no folder.
    """
    for text in texts:
        if not text or not is_folder(text):
            raise InputError(
                f"--code {text or repr(text)} is no folder; give the folder that the model's own modules lie in"
            )
    return tuple(str(Path(text).resolve()) for text in texts)


def settle_opset(asked: int | None, targets: Sequence[str]) -> int:
    """The opset to export: the one asked for, else the newest that all ``targets`` read.

    Raises:
        InputError: the opset asked for is older than 13 or newer than a target reads.
    """
    newest = {name: load_target(name).max_opset for name in targets}
    if asked is None:
        return min(newest.values())
    if asked < LEAST_OPSET:
        raise InputError(
            f"--opset {asked} is too old; allowed are {LEAST_OPSET} to {min(newest.values())} for {', '.join(targets)}"
        )
    for name, limit in newest.items():
        if asked > limit:
            raise InputError(
                f"--opset {asked} is newer than target {name} reads; allowed are {LEAST_OPSET} to "
                f"{min(newest.values())} for {', '.join(targets)}"
            )
    return asked

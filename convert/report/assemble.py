"""Put the report of a run together from what its steps gave."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from convert import __version__
from convert.context import Context
from convert.outdir import REPORT, sha256_of
from convert.platforms import folder_of
from convert.records import SCHEMA_VERSION, ExportRecord, FileRecord, Golden, Outcome, Report
from convert.serial import to_plain
from convert.specs import format_input


def assemble(
    context: Context, golden: Golden, export: ExportRecord, outcomes: Sequence[Outcome], command: Sequence[str]
) -> Report:
    """The report of a run; files of artifacts are hashed here, those of the whole folder when it is written."""
    from convert.pipeline import exit_code

    return Report(
        schema_version=SCHEMA_VERSION,
        convert_version=__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        command=tuple(command),
        options=_options(context),
        host=_host(),
        toolchains={name: dict(environment.versions) for name, environment in sorted(context.used.items())},
        model=_model(context),
        golden=golden,
        export=export,
        artifacts=tuple(_with_files(context.folder, outcome) for outcome in outcomes),
        files=(),
        seconds=dict(context.seconds),
        exit_code=exit_code(outcomes, context.options.allow_deferred),
    )


def _with_files(folder: Path, outcome: Outcome) -> Outcome:
    return replace(
        outcome,
        files=tuple(hash_files(folder, folder / folder_of(outcome.target, outcome.precision, outcome.platform))),
    )


def hash_files(root: Path, folder: Path) -> list[FileRecord]:
    """Every file below ``folder`` but the report itself, with paths relative to ``root``."""
    return [
        FileRecord(path.relative_to(root).as_posix(), sha256_of(path), path.stat().st_size)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != root / REPORT
    ]


def _options(context: Context) -> dict[str, Any]:
    options = context.options
    return {
        "targets": list(options.targets),
        "precisions": list(options.precisions),
        "inputs": [format_input(spec) for spec in options.inputs],
        "dims": [f"{dim.name}={dim.min}..{dim.opt}..{dim.max}" for dim in options.dims],
        "samples": options.samples,
        "opset": options.opset,
        "timeout": options.timeout,
        "memory": options.memory,
        "threads": options.threads,
        "jobs": options.jobs,
        "bench_seconds": options.bench_seconds,
        "platforms": list(options.platforms),
        "cpus": dict(options.cpus),
        "provider": options.provider,
        "max_cpu_ops": options.max_cpu_ops,
        "devices": [device.name for device in options.devices],
        "allow_deferred": options.allow_deferred,
        "engine": to_plain(options.engine),
        "tuning": to_plain(options.tuning),
        "least_sqnr": options.quantization.least_sqnr,
        "constants": list(options.ref.constants),
        "code": list(options.ref.code),
        "config": None if options.config is None else {"file": options.config.path, "keys": list(options.config.keys)},
    }


def _host() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "release": platform.release(),
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "python": platform.python_version(),
    }


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _model(context: Context) -> dict[str, Any]:
    ref = context.options.ref
    path = Path(ref.path)
    known = path.is_file()
    return {
        "path": ref.path,
        "kind": str(ref.kind),
        "factory": ref.factory,
        "factory_file": ref.factory_file,
        "trusted": ref.trust_pickle,
        "sha256": sha256_of(path) if known else None,
        "size": path.stat().st_size if known else None,
    }

"""What came of a recipe: ``result.json`` with the engine and its outputs beside it."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .folder import Recipe, sha256_of

VERSION = 1
RESULT, OUTPUTS = "result.json", "outputs"
PASSED, FAILED, BUILT = "passed", "failed", "built"


class Result:
    """Collects while the work goes on; without an end it is a failure.

    Attributes:
        stage: what is being done, and where it failed.
        gpu: what :func:`.device.gpu_here` says; None where no GPU was used.
        summary: what :func:`.inspection.summarise` says.
        versions: distribution -> version.
    """

    def __init__(self, recipe: Recipe, out: Path) -> None:
        """Start a result of ``recipe`` in ``out``; outputs of an earlier one are removed."""
        self._recipe, self._out = recipe, out
        self._status, self._reason = FAILED, "it did not come to an end"
        self._seconds: dict[str, float] = {}
        self._outputs: dict[str, dict[str, str]] = {}
        self._engine: dict[str, Any] | None = None
        self._latency: dict[str, Any] | None = None
        self.stage = ""
        self.gpu: dict[str, Any] | None = None
        self.summary: dict[str, Any] | None = None
        self.versions: dict[str, str] = {"numpy": np.__version__, "python": sys.version.split()[0]}
        shutil.rmtree(out / OUTPUTS, ignore_errors=True)

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Record the seconds of a step."""
        start = time.monotonic()
        try:
            yield
        finally:
            self._seconds[step] = round(time.monotonic() - start, 3)

    def keep_engine(self, file: Path, plan: bytes) -> None:
        """Write the engine."""
        file.write_bytes(plan)
        digest = hashlib.sha256(plan).hexdigest()
        self._engine = {"file": file.name, "sha256": digest, "size": len(plan)}

    def keep_outputs(self, case: str, outputs: dict[str, Any]) -> None:
        """Write what the engine gave for a case."""
        folder = self._out / OUTPUTS
        folder.mkdir(exist_ok=True)
        file = folder / f"{case}.npz"
        np.savez_compressed(file, **{f"out:{name}": value for name, value in outputs.items()})
        self._outputs[case] = {"file": f"{OUTPUTS}/{file.name}", "sha256": sha256_of(file)}

    def times(self, rows: list[dict[str, float]], memory_mib: float) -> None:
        """Record the times of the latency case: medians of the parts, percentiles of the whole, in milliseconds."""
        total = np.array([row["total_ms"] for row in rows])
        p50, p90, p99 = (float(np.percentile(total, share)) for share in (50, 90, 99))
        parts = {key: float(np.median([row[key] for row in rows])) for key in rows[0] if key != "total_ms"}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # KiB on Linux
        whole = {
            "samples": len(rows),
            "p50_ms": p50,
            "p90_ms": p90,
            "p99_ms": p99,
            "memory_mib": memory_mib,
            "peak_memory_mib": peak,
        }
        self._latency = {"case": self._recipe.latency_case, **whole, **parts}

    def fail(self, reason: str) -> None:
        """End as a failure at the present stage."""
        self.end(FAILED, reason)

    def end(self, status: str, reason: str) -> None:
        """Say how it ended."""
        self._status, self._reason = status, reason

    def write(self) -> dict[str, Any]:
        """Write ``result.json``, whole or not at all, and give its content."""
        said = {
            "result_version": VERSION,
            "recipe_sha256": self._recipe.sha256,
            "target": self._recipe.said["target"],
            "precision": self._recipe.said["precision"],
            "status": self._status,
            "stage": self.stage,
            "reason": self._reason,
            "gpu": self.gpu,
            "engine": self._engine,
            "summary": self.summary,
            "latency": self._latency,
            "outputs": self._outputs,
            "versions": self.versions,
            "seconds": self._seconds,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }
        partial = self._out / f".{RESULT}.partial"
        partial.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
        os.replace(partial, self._out / RESULT)
        return said

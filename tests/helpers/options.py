"""Options of a run that nobody typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from convert.options import Options
from convert.records import Kind, ModelRef


def make(**given: Any) -> Options:
    """Options with ``given``, and a model that is not there."""
    usual: dict[str, Any] = {
        "ref": ModelRef("m.pt2", Kind.EXPORTED),
        "targets": ("tvm",),
        "precisions": ("float32",),
        "inputs": (),
        "dims": (),
        "samples": None,
        "opset": None,
        "out": Path("out"),
        "timeout": 120.0,
        "memory": None,
        "threads": 1,
        "jobs": 1,
        "bench_seconds": 0.0,
        "allow_deferred": False,
    }
    return Options(**(usual | given))

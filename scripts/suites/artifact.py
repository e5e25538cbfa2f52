"""Export, build and check one prepared item, by the project's own stages. Runs in a child process.

What ``prepare`` leaves in the folder of an item:

- ``golden.json`` and ``golden/``: interface, cases and expected outputs,
- ``ref.json``: the source, a graph or a module,
- ``tolerance.json`` where the suite has tolerances of its own; else the project's rules decide.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from convert.golden_io import load_case
from convert.options import settle_opset
from convert.records import Artifact, Check, Golden, Kind, ModelRef
from convert.serial import from_plain, read_json, to_plain, write_json
from convert.stages import build as build_stage
from convert.stages import check as check_stage
from convert.stages import export as export_stage
from convert.targets import load_target
from convert.validators.verdict import verdict
from convert.worker import Channel

QUIET = Channel(None, None)


def export(item: str, folder: str, target: str, route: str) -> None:
    """Write ``model.onnx``: a graph at the newest opset that ``target`` reads, a module by the dynamo exporter."""
    del item, route
    place = Path(folder)
    ref = read_json(ModelRef, place / "ref.json")
    args = {
        "ref": to_plain(ref),
        "golden": to_plain(read_json(Golden, place / "golden.json")),
        "route": "as-given" if ref.kind is Kind.ONNX else "dynamo",
        "opset": settle_opset(None, (target,)),
        "exact": False,
        "file": str(place / "model.onnx"),
    }
    export_stage.run(args, QUIET)


def build(item: str, folder: str, target: str, route: str) -> None:
    """Build the artifact of ``item`` in ``folder/artifact``."""
    del item
    place = Path(folder)
    for name in ("artifact", "scratch"):
        (place / name).mkdir()
    os.chdir(place / "scratch")
    graph = place / "model.onnx"
    args = {
        "target": target,
        "precision": "float32",
        "route": route,
        "golden": json.loads((place / "golden.json").read_text(encoding="utf-8")),
        "golden_folder": str(place / "golden"),
        "folder": str(place / "artifact"),
        "ref": to_plain(read_json(ModelRef, place / "ref.json")),
        "onnx": str(graph) if graph.is_file() else None,
        "fixed": True,
    }
    write_json(place / "artifact.json", build_stage.run(args, QUIET))


def check(item: str, folder: str, target: str, route: str) -> dict[str, str]:
    """Load the artifact as its users would, run every case, compare."""
    del item, target, route
    place = Path(folder)
    artifact, golden = read_json(Artifact, place / "artifact.json"), read_json(Golden, place / "golden.json")
    tolerance = place / "tolerance.json"
    if tolerance.is_file():
        reason = _by_suite(artifact, golden, place, **json.loads(tolerance.read_text(encoding="utf-8")))
    else:
        reason = _by_rules(artifact, golden, place)
    return {"kind": "wrong" if reason else "passed", "reason": reason}


def _by_rules(artifact: Artifact, golden: Golden, place: Path) -> str:
    args = {
        "golden": to_plain(golden),
        "artifact": to_plain(artifact),
        "folder": str(place / "artifact"),
        "golden_folder": str(place / "golden"),
        "threads": 1,
    }
    checks = from_plain(tuple[Check, ...], to_plain(check_stage.run(args, QUIET)["checks"]))
    not_run = [check.detail for check in checks if not check.output]
    if not_run:
        raise RuntimeError(not_run[0])
    return verdict(checks, golden).reason


def _by_suite(artifact: Artifact, golden: Golden, place: Path, rtol: float, atol: float) -> str:
    """As ONNX's own runner does it: same type and shape, and every element close."""
    import numpy as np

    session = load_target(artifact.target).open(artifact, place / "artifact", 1)
    for case in golden.cases:
        data = load_case(place / "golden", case)
        actual = session.run(data.feeds)
        for name, wanted in data.outputs.items():
            got = np.asarray(actual[name])
            if got.dtype != wanted.dtype or got.shape != wanted.shape:
                return f"{name} is {got.dtype}{list(got.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
            if not np.allclose(got, wanted, rtol=rtol, atol=atol, equal_nan=True):
                return f"{name} is off by up to {_largest_gap(got, wanted):.3g}"
    return ""


def _largest_gap(got: Any, wanted: Any) -> float:
    import numpy as np

    both = np.isfinite(got) & np.isfinite(wanted)
    gap = np.abs(got[both].astype(np.float64) - wanted[both].astype(np.float64))
    return float(gap.max()) if both.any() and np.array_equal(np.isfinite(got), np.isfinite(wanted)) else float("inf")

"""The JSON schema of report.json is the one that the records give, and it refuses what no run writes."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from helpers.command import importing

from convert.records import (
    SCHEMA_VERSION,
    Case,
    Check,
    Dim,
    ExportRecord,
    FileRecord,
    Floor,
    Golden,
    InputSpec,
    IoEntry,
    Kind,
    Latency,
    Outcome,
    OutputSpec,
    Report,
    RouteResult,
    Status,
)
from convert.serial import to_plain

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
INF = float("inf")

ROUTE = RouteResult("export", Status.FAILED, "check", "too far off", 1.5, "logs/01.log", INF)
GOLDEN = Golden(
    Kind.EXPORTED,
    "Net",
    3,
    12,
    (InputSpec("x", "int64", ("N", 3), 0, 9),),
    (Dim("N", 1, 4, 16),),
    (OutputSpec("y", "float32", ("N", -1)),),
    (Case("min-draw0", "draw", {"N": 1}, 7, "min-draw0.npz", {"y": Floor(1.0, None, None, INF)}),),
    "float64",
    ("a note",),
)
OUTCOME = Outcome(
    "onnx",
    "float32",
    "linux/amd64",
    Status.PASSED,
    "check",
    "",
    files=(FileRecord("onnx/float32/model.onnx", "ab" * 32, 10),),
    io=(IoEntry("x", "input", "x", "int32", (-1, 3), source_dtype="int64"),),
    checks=(Check("min-draw0", "y", "8 floors", float("nan"), 1e-6, False, {"N": 1}),),
    latency=Latency(1, {"N": 4}, 9, 3, 1.0, 2.0, 3.0, 1e3, 64.0, 0.5, None, (0.4, 0.6)),
    routes=(ROUTE,),
    versions={"onnx": "1.0"},
)
REPORT = Report(
    SCHEMA_VERSION,
    "0.1.0",
    "2026-01-01T00:00:00+00:00",
    ("model.pt2", "--target", "onnx"),
    {"threads": 1, "samples": None},
    {"cores": 2},
    {"core": {"torch": "2.0"}},
    {"path": "model.pt2", "sha256": None},
    GOLDEN,
    ExportRecord(Status.PASSED, "dynamo", 18, "", (ROUTE,), {"x": ("N", 3)}, True),
    (OUTCOME, Outcome("trt", "float32", "linux/amd64", Status.DEFERRED, "build", "no GPU")),
    (FileRecord("report.md", "cd" * 32, 5),),
    {"total": 1.0},
    3,
)


def schema_text(*words: str) -> subprocess.CompletedProcess[str]:
    """What the script that makes the schema does."""
    command = [sys.executable, str(ROOT / "scripts" / "make_schema.py"), *words]
    return subprocess.run(command, env=importing(), capture_output=True, text=True, encoding="utf-8", check=True)


def test_the_committed_schema_is_the_one_that_the_records_give() -> None:
    text = schema_text("--print").stdout
    committed = (ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8")
    assert committed == text, "run python scripts/make_schema.py"


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"]["schema_version"] == {"const": SCHEMA_VERSION}


def test_a_report_is_valid() -> None:
    jsonschema.validate(json.loads(json.dumps(to_plain(REPORT), allow_nan=False)), SCHEMA)


def change(*path: str | int, to: Any) -> Callable[[Any], None]:
    def apply(report: Any) -> None:
        for key in path[:-1]:
            report = report[key]
        report[path[-1]] = to

    return apply


def remove(*path: str | int) -> Callable[[Any], None]:
    def apply(report: Any) -> None:
        for key in path[:-1]:
            report = report[key]
        del report[path[-1]]

    return apply


WRONG = {
    "another version": change("schema_version", to=SCHEMA_VERSION + 1),
    "an unknown field": change("surprise", to=1),
    "an unknown field deep inside": change("artifacts", 0, "checks", 0, "surprise", to=1),
    "a missing field": remove("exit_code"),
    "a missing field deep inside": remove("golden", "cases", 0, "floors", "y", "scale"),
    "a missing field that has a default": remove("artifacts", 0, "latency_reason"),
    "an unknown status": change("artifacts", 0, "status", to="fine"),
    "an unknown kind": change("golden", "kind", to="keras"),
    "text for a number": change("artifacts", 0, "checks", 0, "limit", to="1e-6"),
    "a bare NaN word": change("artifacts", 0, "checks", 0, "figure", to="nan"),
    "a number for a verdict": change("artifacts", 0, "checks", 0, "passed", to=1),
    "nothing for a figure": change("artifacts", 0, "checks", 0, "figure", to=None),
    "a fraction of a byte": change("files", 0, "size", to=1.5),
    "a number for a path": change("files", 0, "path", to=1),
    "a record for a list": change("artifacts", to={}),
    "a nested shape": change("golden", "inputs", 0, "shape", to=[["N"]]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_no_run_writes_is_refused(name: str) -> None:
    plain = copy.deepcopy(to_plain(REPORT))
    WRONG[name](plain)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(json.dumps(plain)), SCHEMA)


def test_every_record_is_described() -> None:
    records = {"Report": SCHEMA} | SCHEMA["$defs"]
    assert [name for name, record in records.items() if not record.get("description")] == []
    assert SCHEMA["$defs"]["Check"]["properties"]["passed"]["description"] == "the verdict; nothing but True passes."
    half = SCHEMA["$defs"]["Floor"]["properties"]["half_rms"]["description"]
    assert half == "the same for the source run in float16; None where it could not run or overflowed."

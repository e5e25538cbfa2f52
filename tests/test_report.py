"""One record, many renderings: cells, Markdown, the terminal's table, and the files that are written."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from convert import records as r
from convert.records import Check, FileRecord, Golden, IoEntry, Latency, Outcome, Report, Status
from convert.report.cells import COLUMNS, remarks, row, size_text, worst_check
from convert.report.markdown import render
from convert.report.table import print_report
from convert.report.write import write_report
from convert.serial import read_json, to_plain

NEAR = Check("b", "y", "8 noise floors", 3e-6, 4e-6, True, {"N": 2}, 1e-6, 1.5)
FAR = Check("a", "y", "8 noise floors", 1e-3, 1.0, True)
EXACT = Check("a", "i", "equal", 0.0, 0.0, True, {"N": 2})
OVER, SILENT = replace(FAR, figure=5.0, passed=False), replace(EXACT, passed=False)
LOST = Check("a", "z", "same | count", float("inf"), 0.0, False, detail="missing\nreally")
LATENCY = Latency(2, {"N": 4}, 100, 5, 1.23456, 2.0, 3.0, 800.0, 64.0, 0.987, None, warnings=("only a few | runs",))
FILE = FileRecord("onnx/float32/model.onnx", "ab" * 32, 3 * 2**20)
IO = (IoEntry("x", "input", "x:0", "float32", (-1, 3), "0,2,1"),)
FILES = (FILE, FileRecord("onnx/float32/manifest.json", "cd" * 32, 2**20))
ROUTES = (r.RouteResult("dynamo", Status.PASSED, "check", "", 1.25),)
END = (Status.PASSED, "check", "", "", "dynamo", 12.34)
CHECKS = (FAR, EXACT, NEAR)
PASSED = Outcome("onnx", "float32", "linux/amd64", *END, FILES, IO, CHECKS, LATENCY, "", ROUTES, ("folded",))
FAILED = Outcome("trt", "float32", "linux/amd64", Status.FAILED, "build", "no [bold] luck", "get a GPU", checks=(LOST,))
INPUTS, OUTPUTS = (r.InputSpec("x", "float32", ("N", 3)),), (r.OutputSpec("y", "float32", ("N", -1)),)
NOTES, DIMS = ("was in eval mode",), (r.Dim("N", 1, 4, 16),)
GOLDEN = Golden(r.Kind.EXPORTED, "Net", 1234567, 4, INPUTS, DIMS, OUTPUTS, (), "float64", NOTES)
TRIED = (r.RouteResult("trace", Status.FAILED, "export", "a | b", 0.04),)
EXPORT = r.ExportRecord(Status.PASSED, "dynamo", 20, "", TRIED, notes=("as is",))
DATE, MODEL = "2024-05-06T07:08:09+00:00", {"path": "net.pt2", "kind": "exported-program"}
BOTH, SECONDS = (PASSED, FAILED), {"total": 1.0}
REPORT = Report(1, "0.1", DATE, ("net.pt2",), {"threads": 2}, {}, {}, MODEL, GOLDEN, EXPORT, BOTH, (), SECONDS, 1)


@pytest.mark.parametrize(
    ("checks", "worst"),
    [((), None), ((EXACT,), None), ((FAR, EXACT, NEAR), NEAR), ((NEAR, OVER), OVER), ((SILENT, OVER), SILENT)],
)
def test_worst_check(checks: tuple[Check, ...], worst: Check | None) -> None:
    assert worst_check(replace(PASSED, checks=checks)) == worst


def test_size_text() -> None:
    texts = ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1024.0 KiB", "1.0 MiB", "5120.0 MiB"]
    assert [size_text(size) for size in (0, 1023, 1024, 1536, 2**20 - 1, 2**20, 5 * 2**30)] == texts


def test_a_row_has_a_cell_for_every_column() -> None:
    cells = ("onnx", "float32", "passed", "dynamo", "3.0e-06", "75%", "3.0 MiB", "1.23", "0.99", "–", "12.3")
    assert (row(PASSED), len(COLUMNS)) == (cells, len(cells))
    assert row(FAILED) == ("trt", "float32", "failed", "–", "inf", "–", "–", "–", "–", "–", "0.0")
    assert row(replace(FAILED, checks=()))[4:6] == ("–", "–")
    assert row(replace(PASSED, checks=(OVER, FAR)))[4:6] == ("5.0e+00", "500%")


def test_remarks() -> None:
    assert remarks(PASSED) == ["folded", "latency: only a few | runs"]
    assert remarks(FAILED) == ["failed at build: no [bold] luck", "next: get a GPU"]
    assert remarks(replace(FAILED, stage="", advice="")) == ["failed: no [bold] luck"]


MARKDOWN = f"""# Net

`net.pt2` (exported-program), 1,234,567 parameters, made by convert 0.1 on 2024-05-06T07:08:09+00:00.

- input `x=float32[N,3]`
- output `y`: float32[N, -1]
- dimension `N`: 1 to 16, usually 4
- was in eval mode

## Result

| {" | ".join(COLUMNS)} |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| onnx | float32 | passed | dynamo | 3.0e-06 | 75% | 3.0 MiB | 1.23 | 0.99 | – | 12.3 |
| trt | float32 | failed | – | inf | – | – | – | – | – | 0.0 |

## ONNX

passed, opset 20, route dynamo

| route | status | stage | reason | seconds |
| --- | --- | --- | --- | --- |
| trace | failed | export | a \\| b | 0.0 |

- as is

## onnx float32: passed

- folded
- latency: only a few | runs
- `onnx/float32/model.onnx` 3145728 bytes, sha256 `{"ab" * 32}`
- `onnx/float32/manifest.json` 1048576 bytes, sha256 `{"cd" * 32}`

| route | status | stage | reason | seconds |
| --- | --- | --- | --- | --- |
| dynamo | passed | check |  | 1.2 |

| role | source | name | dtype | shape | layout |
| --- | --- | --- | --- | --- | --- |
| input | x | x:0 | float32 | [-1, 3] | 0,2,1 |

| case | output | error | limit | noise floors | verdict | rule |
| --- | --- | --- | --- | --- | --- | --- |
| a | y | 1.00e-03 | 1.00e+00 |  | passed | 8 noise floors |
| a | i | 0.00e+00 | 0.00e+00 |  | passed | equal |
| b | y | 3.00e-06 | 4.00e-06 | 1.5 | passed | 8 noise floors |

## trt float32: failed

- failed at build: no [bold] luck
- next: get a GPU

| case | output | error | limit | noise floors | verdict | rule |
| --- | --- | --- | --- | --- | --- | --- |
| a | z | inf | 0.00e+00 |  | failed: missing really | same \\| count |
"""


def test_markdown() -> None:
    assert render(REPORT) == MARKDOWN


def test_markdown_of_a_failed_export() -> None:
    export = r.ExportRecord(Status.FAILED, "", 0, "no route worked", ())
    text = render(replace(REPORT, export=export, artifacts=()))
    assert text[text.index("## ONNX") :] == "## ONNX\n\nfailed: no route worked\n"


def printed(report: Report, **console: object) -> str:
    """What ``print_report`` writes, without colours."""
    out = io.StringIO()
    print_report(report, Console(file=out, color_system=None, **console), "out/net")  # type: ignore[arg-type]
    return out.getvalue()


def test_the_table_of_a_wide_terminal() -> None:
    lines = printed(REPORT, width=200).splitlines()
    assert [line.split() for line in lines[1:4]] == [
        " ".join(cells).split() for cells in (COLUMNS, row(PASSED), row(FAILED))
    ]
    assert lines[4:] == [
        "onnx float32: folded",
        "onnx float32: latency: only a few | runs",
        "trt float32: failed at build: no [bold] luck",
        "trt float32: next: get a GPU",
        "latency: 2 threads, ratios from interleaved runs, below 1 is faster than the reference",
        "report: out/net/report.json and report.md",
    ]


def test_a_narrow_terminal_loses_columns_and_no_row() -> None:
    lines = printed(REPORT, width=80, force_terminal=True).splitlines()
    assert len(printed(REPORT, width=80).splitlines()[1].split()) == len(" ".join(COLUMNS).split())  # a pipe
    assert [" ".join(line.split()) for line in lines[1:4]] == [
        "target precision status route error size p50 ms × ort",
        "onnx float32 passed dynamo 3.0e-06 3.0 MiB 1.23 0.99",
        "trt float32 failed – inf – – –",
    ]


def test_without_a_timing_nothing_is_said_of_it() -> None:
    one = replace(REPORT, options={"threads": 1})
    assert "latency: 1 thread, ratios" in printed(one, width=200)
    assert "latency" not in printed(replace(one, artifacts=(FAILED,)), width=200)


def test_write_report(tmp_path: Path) -> None:
    for name in ("work/a", "onnx/float32/model.onnx", "golden/report.json", "trt/float32/part", "report.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"graph")
    artifact = r.Artifact("onnx", "float32", "dynamo", ("model.onnx",), PASSED.io, "linux/amd64", ("n",), {"onnx": "1"})
    write_report(tmp_path, REPORT, [(PASSED, artifact), (FAILED, None)])

    written = read_json(Report, tmp_path / "report.json")
    paths = [[file.path for file in files] for files in (written.files, *(one.files for one in written.artifacts))]
    onnx, trt = ["onnx/float32/manifest.json", "onnx/float32/model.onnx"], ["trt/float32/part"]
    assert paths == [["golden/index.json", "golden/report.json", *onnx, "report.md", *trt], onnx, trt]
    for file in (*written.files, *written.artifacts[0].files):
        content = (tmp_path / file.path).read_bytes()
        assert (file.sha256, file.size) == (hashlib.sha256(content).hexdigest(), len(content))
    assert replace(written, files=(), artifacts=()) == replace(REPORT, artifacts=())
    assert replace(written.artifacts[0], files=PASSED.files) == PASSED
    assert {path.name for path in tmp_path.iterdir()} == {"golden", "onnx", "trt", "report.json", "report.md"}
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == render(written)
    assert read_json(Golden, tmp_path / "golden/index.json") == GOLDEN
    manifest = json.loads((tmp_path / "onnx/float32/manifest.json").read_text(encoding="utf-8"))
    known = {"schema_version": 1, "dims": to_plain(DIMS), "source": MODEL, "status": "passed", "proven": None}
    assert manifest == to_plain(artifact) | known

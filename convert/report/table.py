"""The report as a table on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from convert.records import Report, Status
from convert.report.cells import COLUMNS, remarks, row

_COLOURS = {Status.PASSED: "green", Status.FAILED: "red", Status.DEFERRED: "yellow", Status.SKIPPED: "dim"}
_RIGHT = frozenset(("worst error", "of limit", "size", "p50", "× onnxruntime", "× eager", "seconds"))


def print_report(report: Report, console: Console, folder: str) -> None:
    """Print the table, what must be said about single rows, and where the report lies."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in _RIGHT else "left", no_wrap=True)
    for outcome in report.artifacts:
        cells = list(row(outcome))
        cells[2] = f"[{_COLOURS[outcome.status]}]{cells[2]}[/]"
        table.add_row(*cells)
    console.print()
    console.print(table)
    for outcome in report.artifacts:
        for text in remarks(outcome):
            console.print(f"{outcome.target} {outcome.precision}: {text}", highlight=False, markup=False)
    threads = report.options["threads"]
    if any(outcome.latency for outcome in report.artifacts):
        console.print(
            f"latency: {threads} thread{'s' if threads != 1 else ''}, ratios from interleaved runs, below 1 "
            "is faster than the reference",
            style="dim",
            highlight=False,
        )
    console.print(f"report: {folder}/report.json and report.md", highlight=False, markup=False, soft_wrap=True)

"""The report as a table on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from convert.records import Report, Status
from convert.report.cells import COLUMNS, remarks, row, target_text
from convert.specs import ASSUMED

_COLOURS = {Status.PASSED: "green", Status.FAILED: "red", Status.DEFERRED: "yellow", Status.SKIPPED: "dim"}
_RIGHT = frozenset(COLUMNS[4:])
#: Columns that a narrow terminal does without; the report has them all.
_DISPENSABLE = ("s", "× eager", "of limit")
_WIDE = 100


def print_report(report: Report, console: Console, folder: str) -> None:
    """Print the table, what must be said about single rows, and where the report lies."""
    console.print()
    console.print(_table(report, narrow=console.is_terminal and console.width < _WIDE), soft_wrap=True)
    for note in report.golden.notes:
        if note.startswith(ASSUMED):
            console.print(f"source: {note}", highlight=False, markup=False, soft_wrap=True)
    for outcome in report.artifacts:
        for text in remarks(outcome):
            console.print(
                f"{target_text(outcome)} {outcome.precision}: {text}", highlight=False, markup=False, soft_wrap=True
            )
    _print_footer(report, console, folder)


def _table(report: Report, narrow: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    shown = [place for place, column in enumerate(COLUMNS) if not (narrow and column in _DISPENSABLE)]
    for place in shown:
        table.add_column(COLUMNS[place], justify="right" if COLUMNS[place] in _RIGHT else "left", no_wrap=True)
    for outcome in report.artifacts:
        cells = list(row(outcome))
        cells[2] = f"[{_COLOURS[outcome.status]}]{cells[2]}[/]"
        table.add_row(*(cells[place] for place in shown))
    return table


def _print_footer(report: Report, console: Console, folder: str) -> None:
    threads = report.options["threads"]
    if any(outcome.latency for outcome in report.artifacts):
        console.print(
            f"latency: {threads} thread{'s' if threads != 1 else ''}, ratios from interleaved runs, below 1 "
            "is faster than the reference",
            style="dim",
            highlight=False,
        )
    console.print(f"report: {folder}/report.json and report.md", highlight=False, markup=False, soft_wrap=True)

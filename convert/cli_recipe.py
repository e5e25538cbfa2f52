"""``convert build-recipe DIR`` and ``convert merge OUT RESULT…``: the second half of a run, on a host with a GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from convert.cli_types import AnyPath, Seconds

if TYPE_CHECKING:
    from convert.progress import Progress
    from convert.records import Report

_TIMEOUT = click.option(
    "--timeout",
    type=Seconds(min=0, min_open=True),
    metavar="SECONDS",
    default=3600.0,
    show_default=True,
    help="Seconds that one engine may take.",
)
_QUIET = click.option("--quiet", "-q", is_flag=True, help="No progress, only the table.")
_DEBUG = click.option("--debug", is_flag=True, help="Show the traceback of an error.")


@click.command("build-recipe")
@click.argument("folder", metavar="DIR", type=AnyPath())
@click.option(
    "--out",
    "-o",
    type=AnyPath(),
    metavar="DIR",
    help="Output folder of that run, or a new one [default: the one that DIR lies in, else DIR/built].",
)
@click.option("--memory", metavar="SIZE", help="Memory that the worker may use, such as 8G [default: no limit].")
@_TIMEOUT
@_QUIET
@_DEBUG
def build_recipe(folder: Path, out: Path | None, memory: str | None, timeout: float, quiet: bool, debug: bool) -> None:
    """Build, check and time the recipe in DIR (or all that an output folder holds) on this host's GPU.

    Exit code: 0 all passed; 1 something failed; 2 bad input or usage; 3 something else is still deferred.
    """
    del debug
    from convert import merging
    from convert.options import parse_memory

    limit = None if memory is None else parse_memory(memory)
    with _progress(quiet) as progress:
        report, root = merging.build_recipe(folder, out, lambda text: progress.say("recipe", text), timeout, limit)
    _end(report, root)


@click.command()
@click.argument("out", metavar="OUT", type=AnyPath())
@click.argument("results", metavar="RESULT...", type=AnyPath(), nargs=-1, required=True)
@click.option("--allow-deferred", is_flag=True, help="Exit with 0 although something is still deferred.")
@_TIMEOUT
@_QUIET
@_DEBUG
def merge(out: Path, results: tuple[Path, ...], allow_deferred: bool, timeout: float, quiet: bool, debug: bool) -> None:
    """Fold RESULT, folders that a recipe was built in on other hosts, into the report in OUT.

    The outputs of each engine are compared with the source again, here. Exit code: as of the conversion itself.
    """
    del debug
    from convert import merging

    with _progress(quiet) as progress:
        report = merging.merge(
            out, results, lambda text: progress.say("merge", text), timeout, allow_deferred=allow_deferred
        )
    _end(report, out)


def _progress(quiet: bool) -> Progress:
    from rich.console import Console

    from convert.progress import Progress

    return Progress(Console(stderr=True), quiet=quiet)


def _end(report: Report, folder: Path) -> NoReturn:
    from convert.console import stdout
    from convert.report.table import print_report

    print_report(report, stdout(), str(folder))
    sys.exit(report.exit_code)

"""A run of workers for a command that leaves no output folder: its files are gone when it ends."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from convert.context import Context
from convert.jobs import Limits, Runner
from convert.options import Options
from convert.progress import Progress


@contextmanager
def scratch_context(options: Options, quiet: bool, name: str) -> Iterator[tuple[Context, Callable[[str], None]]]:
    """A context in a temporary folder, and what shows its progress as ``name``; on any error its workers end."""
    with tempfile.TemporaryDirectory(prefix=f"convert-{name}-") as folder:
        place = Path(folder)
        for part in ("work", "logs", "golden"):
            (place / part).mkdir()
        runner = Runner(place / "work" / "jobs", place / "logs", Limits(options.timeout, options.memory))
        try:
            with Progress(Console(stderr=True), quiet=quiet) as progress:
                yield Context(options, place, runner), lambda text: progress.say(name, text)
        except BaseException:
            runner.interrupt()
            raise

"""Progress on the terminal: a live line per target, or plain lines where there is no terminal."""

from __future__ import annotations

import re
import threading
import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table

_COUNTER = re.compile(r"\bcase \d+ of \d+\b")


class Progress:
    """Lines that say what each target is doing. Safe to call from several threads."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        """Write to ``console``; ``quiet`` writes nothing."""
        self._console = console
        self._quiet = quiet
        self._live: Live | None = None
        self._lines: dict[str, str] = {}
        self._since: dict[str, float] = {}
        self._printed: dict[str, str] = {}
        self._lock = threading.Lock()
        self._spinner = Spinner("dots")

    def __enter__(self) -> Progress:
        """Start drawing."""
        if not self._quiet and self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=8, transient=True, get_renderable=self._render)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing."""
        if self._live is not None:
            self._live.stop()

    def say(self, line: str, text: str) -> None:
        """Set what ``line`` (a step, or a target with its precision) is doing."""
        with self._lock:
            self._lines[line] = text
            self._since.setdefault(line, time.monotonic())
            if self._live is None:
                self._print(line, text)

    def done(self, line: str, text: str) -> None:
        """Take ``line`` off the display and leave one line that says how it ended."""
        with self._lock:
            self._lines.pop(line, None)
            self._since.pop(line, None)
            if not self._quiet:
                self._console.print(f"{line:<18} {text}", highlight=False, markup=False, soft_wrap=True)

    def _print(self, line: str, text: str) -> None:
        # A log wants each thing once, not every case of a check.
        key = _COUNTER.sub("", text)
        if not self._quiet and self._printed.get(line) != key:
            self._printed[line] = key
            self._console.print(f"{line:<18} {text}", highlight=False, markup=False, soft_wrap=True)

    def _render(self) -> Table:
        grid = Table.grid(padding=(0, 1))
        with self._lock:
            for line, text in self._lines.items():
                grid.add_row(self._spinner, line, text, f"{time.monotonic() - self._since[line]:.0f} s")
        return grid

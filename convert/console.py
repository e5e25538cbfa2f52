"""Where tables are printed."""

from __future__ import annotations

import sys

from rich.console import Console

#: A pipe or a file has no width to fit into.
_UNLIMITED = 2000


def stdout() -> Console:
    """Standard output: as wide as the terminal, or without a limit where there is none."""
    return Console() if sys.stdout.isatty() else Console(width=_UNLIMITED)

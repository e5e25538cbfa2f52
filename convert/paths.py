"""Questions about paths that a user typed: a path that cannot be one (too long, not allowed to look) is not there."""

from __future__ import annotations

import os
from pathlib import Path


def is_file(path: str | Path) -> bool:
    """Whether ``path`` is a file; False, unlike with ``Path.is_file``, where the system refuses even to look."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: str | Path) -> bool:
    """Whether ``path`` is a folder; False where the system refuses even to look."""
    return os.path.isdir(path)  # noqa: PTH112


def exists(path: str | Path) -> bool:
    """Whether there is something at ``path``; False where the system refuses even to look."""
    return os.path.exists(path)  # noqa: PTH110

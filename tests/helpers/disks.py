"""Small disks to fill: file systems in memory, where this user may mount them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def disk(folder: Path, options: str) -> Iterator[Path]:
    """Mount a file system in memory with ``options`` (such as ``size=64k`` or ``ro``) at ``folder``; skips without."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"mount cannot be run here ({error.strerror})")
    if mounted.returncode != 0:
        pytest.skip(f"this user may not mount a small disk ({mounted.stderr.strip()})")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path, leave: int = 0) -> Path:
    """Write a file that leaves ``leave`` bytes of the disk; it can be removed."""
    file = folder / "fill"
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_bsize
    with file.open("wb") as stream:
        stream.write(bytes(max(0, free - leave)))
    return file

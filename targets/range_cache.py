"""Keep measured ranges, under a key of all that they follow from: measuring is most of the time of a build.

A result is never used for another model, other data or other settings, since each of these changes the key; a file
that cannot be read, or that says another key, counts as none.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from convert.targets.ranges import Range

#: Changes when the way of measuring does.
_VERSION = 1
#: Files beyond these are deleted, the oldest first; one has a few kilobytes.
_MOST_FILES = 256

Measured = tuple[dict[str, Range], int]


def cached(folder: str | None, model: bytes, settings: Mapping[str, Any], measure: Callable[[], Measured]) -> Measured:
    """What ``measure`` gives, from ``folder`` if it was measured before.

    Args:
        folder: where results lie; None to measure in any case.
        model: the file that is run.
        settings: the key of the data, and everything else that the ranges follow from.
        measure: gives ranges by tensor name, and how many batches there were.
    """
    if folder is None:
        return measure()
    key = _key(model, settings)
    file = Path(folder) / f"{key}.json"
    known = _read(file, key)
    if known is not None:
        return known
    found = measure()
    _write(file, key, found)
    return found


def _key(model: bytes, settings: Mapping[str, Any]) -> str:
    said = {"version": _VERSION, "model": hashlib.sha256(model).hexdigest(), **settings}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _read(file: Path, key: str) -> Measured | None:
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        if stored["key"] != key:
            return None
        return {str(k): (float(low), float(high)) for k, (low, high) in stored["ranges"].items()}, int(
            stored["batches"]
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _write(file: Path, key: str, found: Measured) -> None:
    """Whole or not at all; a folder that cannot be written costs only time."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps({"key": key, "ranges": found[0], "batches": found[1]}), encoding="utf-8")
        temporary.replace(file)
        newest = sorted(file.parent.glob("*.json"), key=lambda one: one.stat().st_mtime, reverse=True)
        for old in newest[_MOST_FILES:]:
            old.unlink(missing_ok=True)
    except OSError:
        return

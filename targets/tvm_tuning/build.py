"""What a build takes from tuning databases: the one in the cache folder, and one that the user gave."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from convert.errors import StageError
from convert.targets.tvm_tuning.apply import tuned
from convert.targets.tvm_tuning.database import file_of, read, read_for
from convert.targets.tvm_tuning.identity import identity_of
from convert.targets.tvm_tuning.kernels import lowered
from convert.targets.tvm_tuning.records import Identity, Records, Unreadable


def with_schedules(module: Any, target: Any, settings: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """``module`` with what was tuned for its kernels, lowered where there is something, and what became of it.

    Args:
        module: of Relax, as the front end gave it.
        target: TVM's target.
        settings: ``folder`` of databases, and ``file`` of a further one; neither where nothing may be used.

    Returns:
        The module, and what stands in the manifest: nothing where there are no records.
    """
    if not settings.get("folder") and not settings.get("file"):
        return module, {}
    records, foreign = known_schedules(identity_of(target), settings)
    if not records.count and not foreign:
        return module, {}
    made, report = tuned(lowered(module, target), target, records)
    report.skipped += foreign
    said = report.plain() | {"cpu": records.identity.cpu, "tvm": records.identity.tvm}
    return made, {"tuning": said}


def known_schedules(identity: Identity, settings: Mapping[str, Any]) -> tuple[Records, int]:
    """All that is known for ``identity``, and how many records of the given file are for another CPU or TVM.

    Raises:
        StageError: the given file cannot be read any more.
    """
    found = Records(identity)
    if settings.get("folder"):
        found = read_for(file_of(Path(settings["folder"]), identity), identity)
    if not settings.get("file"):
        return found, 0
    try:
        given = read(Path(settings["file"]))
    except Unreadable as error:
        raise StageError(f"--tuning-db {settings['file']} cannot be used: {error}") from error
    found.skipped += given.skipped
    if given.identity != identity:
        return found, given.count
    found.add(given)
    return found, 0


def add_settings(settings: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add what stands in the manifest of one more module; what became of its kernels joins what is there."""
    before = settings.get("tuning", {})
    settings.update(more)
    if before and "tuning" in more:
        joined = {key: value for key, value in more["tuning"].items() if isinstance(value, int | list)}
        settings["tuning"] = before | {key: before[key] + value for key, value in joined.items()}

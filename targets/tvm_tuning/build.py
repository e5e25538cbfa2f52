"""What a build takes from tuning databases: the one in the cache folder, and one that the user gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from convert.errors import StageError
from convert.targets.tvm_tuning.apply import Report, tuned
from convert.targets.tvm_tuning.database import file_of, read, read_for
from convert.targets.tvm_tuning.identity import identity_of
from convert.targets.tvm_tuning.records import Identity, Records, Unreadable

#: Databases that come with the package, made by ``scripts/tune_shipped.py``.
SHIPPED = Path(__file__).with_name("shipped")


@dataclass
class Schedules:
    """What was tuned for a target, to be put into a lowered module; and what became of it.

    Attributes:
        target: TVM's target.
        records: of it.
        foreign: how many records of the given file are for another CPU or TVM.
    """

    target: Any
    records: Records
    foreign: int
    report: Report | None = None

    @classmethod
    def of(cls, target: Any, settings: Mapping[str, Any]) -> Self | None:
        """All that is known; None where there is nothing, or nothing may be used.

        Args:
            target: TVM's target.
            settings: ``folder`` of databases, and ``file`` of a further one; neither where nothing may be used.
        """
        if not settings.get("folder") and not settings.get("file"):
            return None
        records, foreign = known_schedules(identity_of(target), settings)
        return cls(target, records, foreign) if records.count or foreign else None

    def __call__(self, module: Any) -> Any:
        """The lowered ``module`` with schedules for the kernels that something is known of."""
        made, self.report = tuned(module, self.target, self.records)
        self.report.skipped += self.foreign
        return made

    def said(self) -> dict[str, Any]:
        """What stands in the manifest."""
        known = {"cpu": self.records.identity.cpu, "tvm": self.records.identity.tvm}
        return (self.report.plain() if self.report else {}) | known


def known_schedules(identity: Identity, settings: Mapping[str, Any]) -> tuple[Records, int]:
    """All that is known for ``identity``, and how many records of the given file are for another CPU or TVM.

    Raises:
        StageError: the given file cannot be read any more.
    """
    found = read_for(file_of(SHIPPED, identity), identity)
    found.spent.clear()
    if settings.get("folder"):
        found.add(read_for(file_of(Path(settings["folder"]), identity), identity))
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

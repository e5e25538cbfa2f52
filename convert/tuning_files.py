"""The tuning databases in the cache folder: list them, and take them elsewhere and back. Nothing of TVM is needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from convert.console import stdout
from convert.errors import InputError
from convert.steps.job import tuning_folder
from convert.targets.tvm_tuning import database
from convert.targets.tvm_tuning.records import Records, Unreadable
from convert.tuning_options import tvm_version, usable_database


def print_databases(console: Console | None = None) -> None:
    """Print a line for each database to ``console`` [default: standard output]."""
    console = console or stdout()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("name", "CPU", "TVM", "kernels", "trials", "used"):
        table.add_column(title, justify="right" if title in ("kernels", "trials") else "left")
    here = tvm_version()
    files = database.files_in(tuning_folder())
    for file in files:
        try:
            table.add_row(file.stem, *_cells(database.read(file), here))
        except Unreadable as error:
            table.add_row(file.stem, "", "", "", "", f"no: {error}")
    console.print(table if files else f"nothing has been tuned yet; {tuning_folder()} is empty")


def _cells(records: Records, here: str) -> tuple[str, ...]:
    identity = records.identity
    used = "yes" if identity.tvm == here or not here else f"no: the toolchain tvm has {here}"
    trials = sum(workload.trials for workload in records.workloads.values())
    return identity.cpu, identity.tvm, str(records.count), str(trials), used


def export(name: str, file: Path) -> str:
    """Copy the database ``name`` to ``file``, and say so.

    Raises:
        InputError: there is none of that name, or it cannot be written there.
    """
    found = _read(name)
    found.spent.clear()  # what tuning took here says nothing of another machine
    try:
        database.write(file, found)
    except OSError as error:
        raise InputError(f"{file} cannot be written ({error.strerror or error}); give another file") from error
    return f"{file}: {found.count} kernels for {found.identity.cpu}, TVM {found.identity.tvm}"


def merge(files: Sequence[str]) -> list[str]:
    """Take the databases in ``files`` over, and say of each what was taken.

    Raises:
        InputError: one cannot be used; nothing is taken over then.
    """
    found = [(file, usable_database(file, "FILE")) for file in files]
    return [_merge(file, records) for file, records in found]


def _merge(file: str, records: Records) -> str:
    identity, skipped = records.identity, records.skipped
    mine = database.file_of(tuning_folder(), identity)
    new = 0

    def take(known: Records) -> None:
        nonlocal new
        new = sum(key not in known.workloads for key in records.workloads)
        known.add(records)

    database.update(mine, identity, take)
    left_out = f"; {skipped} entries were left out, since they are not as they should be" if skipped else ""
    return f"{file}: {records.count} kernels for {identity.cpu}, {new} of them new, into {mine.stem}{left_out}"


def remove(names: Sequence[str]) -> list[str]:
    """Delete databases.

    Raises:
        InputError: there is none of one of these names; nothing is deleted then.
    """
    files = [_file(name) for name in names]
    for file in files:
        with database.locked(file):
            file.unlink(missing_ok=True)
    return [f"{file.stem}: removed" for file in files]


def _read(name: str) -> Records:
    try:
        return database.read(_file(name))
    except Unreadable as error:
        raise InputError(f"the database {name} cannot be used: {error}; remove it, and tune again") from error


def _file(name: str) -> Path:
    known = {file.stem: file for file in database.files_in(tuning_folder())}
    if name not in known:
        raise InputError(f"there is no tuning database {name!r}; there are {', '.join(known) or 'none'}")
    return known[name]

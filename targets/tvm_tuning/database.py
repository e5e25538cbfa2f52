"""Tuning databases on disk: one file per CPU and version of TVM, changed under a lock, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from convert.targets.tvm_tuning.records import Identity, Records, Unreadable, from_json, to_json

#: A database is far smaller; more is not read into memory.
MOST_BYTES = 128 << 20
_SUFFIX = ".json"


def file_of(folder: Path, identity: Identity) -> Path:
    """Where the records for ``identity`` lie below ``folder``."""
    said = json.dumps([identity.kind, identity.arch, identity.mcpu, identity.mattr, identity.tvm])
    return folder / f"{identity.arch}-{identity.mcpu}-{hashlib.sha256(said.encode()).hexdigest()[:8]}{_SUFFIX}"


def files_in(folder: Path) -> list[Path]:
    """The databases that lie in ``folder``."""
    return sorted(folder.glob(f"*{_SUFFIX}"))


def read(file: Path) -> Records:
    """The database in ``file``.

    Raises:
        Unreadable: it is none, it is larger than any, or it cannot be read.
    """
    try:
        size = file.stat().st_size
        if size > MOST_BYTES:
            raise Unreadable(f"it has {size / 2**20:.0f} MiB, and at most {MOST_BYTES >> 20} MiB are read")
        return from_json(json.loads(file.read_text(encoding="utf-8"), parse_constant=_no_constant))
    except OSError as error:
        raise Unreadable(f"it cannot be read ({error.strerror or error})") from error
    except RecursionError as error:
        raise Unreadable("its lists lie too deep in one another") from error
    except Unreadable:
        raise
    except ValueError as error:
        raise Unreadable("it is not JSON, or was cut off") from error


def _no_constant(name: str) -> NoReturn:
    raise Unreadable(f"it has {name} where a number is due")


def read_for(file: Path, identity: Identity) -> Records:
    """The database in ``file`` where it is for ``identity``, else an empty one; so is a missing or broken file."""
    try:
        found = read(file)
    except Unreadable:
        return Records(identity)
    return found if found.identity == identity else Records(identity)


def update(file: Path, identity: Identity, change: Callable[[Records], None]) -> Records:
    """Let ``change`` change what is in ``file`` now; no other process does so meanwhile.

    A file that cannot be read is put aside as ``NAME.broken`` and begun anew.
    """
    with locked(file):
        _put_aside(file)
        found = read_for(file, identity)
        change(found)
        write(file, found)
    return found


def write(file: Path, records: Records) -> None:
    """Write ``records`` to ``file`` whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        text = json.dumps(to_json(records), allow_nan=False, separators=(",", ":"))
        temporary.write_text(text + "\n", encoding="utf-8")
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def _put_aside(file: Path) -> None:
    try:
        read(file)
    except Unreadable:
        if file.exists():
            os.replace(file, file.with_suffix(".broken"))


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the lock of ``file``."""
    import filelock  # not everywhere that records are only read

    file.parent.mkdir(parents=True, exist_ok=True)
    lock: Any = filelock.FileLock(file.with_suffix(".lock"))
    with lock:
        yield

"""The output folder: written whole or not at all, by one run at a time."""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from convert.errors import InputError
from convert.toolchains import cache_root

REPORT = "report.json"
_HASH_CHUNK = 1 << 20


class OutputFolder:
    """A hidden folder beside the final one, which takes its place at the very end.

    As a context manager it holds a lock on the final path; on leaving without :meth:`publish` all is removed.
    """

    def __init__(self, final: Path) -> None:
        """Check that ``final`` may be written; raises ``InputError`` when it holds something else."""
        self.final = final.resolve()
        _require_replaceable(self.final)
        locks = cache_root() / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(str(self.final).encode()).hexdigest()[:24]
        self._lock = FileLock(locks / f"{digest}.lock")
        self.path = self.final
        self._made: list[Path] = []

    def __enter__(self) -> OutputFolder:
        """Take the lock and make the hidden folder."""
        try:
            self._lock.acquire(blocking=False)
        except Timeout:
            raise InputError(
                f"another run is writing into {self.final}; wait for it, or choose another --out"
            ) from None
        self._made = _missing_parents(self.final.parent)
        self.final.parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{self.final.name}.partial-"
        # The lock is ours, so what an earlier run left here was left by one that was killed.
        for stale in self.final.parent.glob(f"{glob.escape(prefix)}*"):
            shutil.rmtree(stale, ignore_errors=True)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=self.final.parent))
        self.path.chmod(0o755)
        return self

    def publish(self) -> None:
        """Put the folder in its final place; an earlier report's folder is replaced."""
        _require_replaceable(self.final)
        if self.final.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{self.final.name}.partial-", dir=self.final.parent))
            os.replace(self.final, old / "old")
            try:
                os.replace(self.path, self.final)
            except BaseException:
                os.replace(old / "old", self.final)
                raise
            finally:
                shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(self.path, self.final)
        self._made = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove what was not published, the parent folders that were made for it included."""
        if self.path != self.final:
            shutil.rmtree(self.path, ignore_errors=True)
        for parent in self._made:
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()
        self._lock.release()


def _missing_parents(folder: Path) -> list[Path]:
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    return missing


def _require_replaceable(final: Path) -> None:
    if final.is_dir() and any(final.iterdir()) and not (final / REPORT).is_file():
        raise InputError(
            f"--out {final} holds files that no run of convert made (there is no {REPORT}); choose an "
            "empty or new folder"
        )
    above = next(folder for folder in final.parents if folder.exists())
    if not above.is_dir():
        raise InputError(f"--out {final} lies below the file {above}; choose another folder")
    if final.exists() and not final.is_dir():
        raise InputError(f"--out {final} is a file; choose a folder")


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_HASH_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()

"""The output folder: written whole or not at all, by one run at a time."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from convert.errors import ConvertError, InputError
from convert.jobs import has_space
from convert.toolchains import cache_root

REPORT = "report.json"
_NO_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
_HASH_CHUNK = 1 << 20


class OutputFolder:
    """A hidden folder beside the final one, which takes its place at the very end.

    As a context manager it holds a lock on the final path; on leaving without :meth:`publish` all is removed.
    """

    def __init__(self, final: Path) -> None:
        """Check that ``final`` may be written; raises ``InputError`` when it holds something else."""
        self.final = final.resolve()
        with _named(f"--out {self.final}", "choose another folder"):
            _require_replaceable(self.final)
        locks = cache_root() / "locks"
        with _named(f"the cache folder {cache_root()}", "set CONVERT_CACHE to another folder"):
            locks.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(str(self.final).encode()).hexdigest()[:24]
        self._lock = FileLock(locks / f"{digest}.lock")
        self.path = self.final
        self._made: list[Path] = []

    def __enter__(self) -> OutputFolder:
        """Take the lock and make the hidden folder."""
        try:
            with _named(f"the cache folder {cache_root()}", "set CONVERT_CACHE to another folder"):
                self._lock.acquire(blocking=False)
        except Timeout:
            raise InputError(
                f"another run is writing into {self.final}; wait for it, or choose another --out"
            ) from None
        try:
            with _named(f"--out {self.final}", "choose another folder"):
                self._make()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _make(self) -> None:
        self._made = _missing_parents(self.final.parent)
        self.final.parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{self.final.name}.partial-"
        # The lock is ours, so what an earlier run left here was left by one that was killed.
        for stale in self.final.parent.glob(f"{glob.escape(prefix)}*"):
            shutil.rmtree(stale, ignore_errors=True)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=self.final.parent))
        self.path.chmod(0o755)

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


@contextlib.contextmanager
def _named(what: str, advice: str) -> Iterator[None]:
    """Turn what the system says against writing somewhere into one sentence."""
    try:
        yield
    except TimeoutError:  # somebody else has the lock
        raise
    except OSError as error:
        raise InputError(f"{what} cannot be written ({error.strerror or error}); {advice}") from error


@contextlib.contextmanager
def full_disk_named(out: OutputFolder) -> Iterator[None]:
    """Turn the end of a run for lack of space in ``out`` into one sentence; other errors pass through.

    Raises:
        ConvertError: there is no space left, or the system will not write there any more.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_WRITING:
            raise
        raise _full(out, error.strerror) from error
    except InputError:
        raise
    except ConvertError as error:
        if has_space(out.path):
            raise
        raise _full(out, os.strerror(errno.ENOSPC)) from error


def _full(out: OutputFolder, why: str | None) -> ConvertError:
    return ConvertError(
        f"the run could not be finished, since nothing more can be written to {out.final.parent} ({why}); free space "
        "there, or choose another folder with --out"
    )


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

"""Logs of workers: a toolkit may print megabytes, of which the start and the end are worth keeping."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from pathlib import Path
from typing import IO

_HEAD_BYTES = 1 << 20
_TAIL_BYTES = 1 << 16
_CHUNK = 1 << 16
_JOIN_SECONDS = 2.0


class CappedLog:
    """Copies a pipe into a file in a thread of its own, keeping the first MiB and the last 64 KiB."""

    def __init__(self, pipe: IO[bytes], path: Path) -> None:
        """Start copying from ``pipe`` to ``path``."""
        self._pipe = pipe
        self._path = path
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait until the pipe is closed; a process that kept it open elsewhere is not waited for."""
        self._thread.join(_JOIN_SECONDS)

    def _copy(self) -> None:
        written = 0
        dropped = 0
        last: deque[bytes] = deque()
        with _Lenient(self._path) as file, self._pipe:
            while chunk := self._pipe.read1(_CHUNK):  # type: ignore[attr-defined]
                head = chunk[: max(0, _HEAD_BYTES - written)]
                file.write(head)
                written += len(head)
                if len(chunk) > len(head):
                    last.append(chunk[len(head) :])
                while sum(map(len, last)) - _CHUNK > _TAIL_BYTES:
                    dropped += len(last.popleft())
            if dropped:
                file.write(f"\n[... {dropped} bytes left out ...]\n".encode())
            file.write(b"".join(last))


class _Lenient:
    """A file that takes what it can: when the disk is full the worker must still get rid of its output."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def __enter__(self) -> _Lenient:
        with contextlib.suppress(OSError):
            self._file = self._path.open("wb", buffering=0)
        return self

    def write(self, data: bytes) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.write(data)

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def tail(path: Path, count: int, width: int = 300) -> list[str]:
    """The last ``count`` lines of ``path`` that say something, each cut to ``width`` characters."""
    if not path.is_file():
        return []
    with path.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - _TAIL_BYTES))
        text = file.read().decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines()]
    return [line[:width] for line in lines if line][-count:]

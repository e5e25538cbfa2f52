"""Sessions whose artifact runs in another place: the same interface as native ones."""

from __future__ import annotations

import contextlib
import subprocess
from abc import abstractmethod
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from convert.errors import StageError
from convert.records import Artifact
from convert.remote import frames
from convert.remote.complaints import Complaints
from convert.remote.place import Place, Program
from convert.targets.base import Arrays, Session

Array = np.ndarray[Any, Any]
_GRACE_SECONDS = 10.0


class Remote:
    """A started program that holds one artifact, or one module of it."""

    def __init__(self, place: Place, program: Program) -> None:
        """Start ``program`` in ``place`` and wait until it has loaded.

        Raises:
            StageError: it does not load there.
        """
        self._place = place
        self._process = place.start(program)
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018  (PIPE)
        self._requests: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout
        self._complaints = None if self._process.stderr is None else Complaints(self._process.stderr)
        try:
            version = self._answer("H")
            if version != frames.VERSION:
                raise StageError(f"{place.name}: the program speaks version {version}, not {frames.VERSION}")
        except BaseException:
            self.close()
            raise

    def run(self, feeds: Sequence[Array]) -> list[Array]:
        """Run once.

        Raises:
            StageError: the artifact fails, or the program or the line to it is gone.
        """
        with self._named():
            frames.write_run(self._requests, feeds)
        return list(self._answer("K"))

    def times(self, runs: int) -> list[float]:
        """Seconds of each of ``runs`` runs with the feeds of the last one, as measured in the place itself."""
        with self._named():
            frames.write_time(self._requests, runs)
        return list(self._answer("T"))

    def peak_memory(self) -> int:
        """Largest resident set of the program so far, in bytes."""
        with self._named():
            frames.write_memory(self._requests)
        return int(self._answer("M"))

    def _answer(self, wanted: str) -> Any:
        with self._named():
            letter, value = frames.read_answer(self._answers)
        if letter == "E":
            raise StageError(f"{self._place.name}: {value}")
        if letter != wanted:
            raise StageError(f"{self._place.name}: answered {letter!r} where {wanted!r} was due")
        return value

    @contextlib.contextmanager
    def _named(self) -> Any:
        """Turn a broken line into one sentence that says how the program ended."""
        try:
            yield
        except (frames.Broken, OSError, ValueError) as error:
            end = self._end()
            said = "" if self._complaints is None else self._complaints.last()
            raise StageError(f"{self._place.name}: {end} ({said or error})") from error

    def _end(self) -> str:
        # The line is of no use any more; a program that still runs would wait for ever.
        with contextlib.suppress(OSError, ValueError):
            self._requests.close()
        try:
            return f"the program {self._place.ended(self._process.wait(_GRACE_SECONDS))}"
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return "the program answered with something else than a frame"

    def close(self) -> None:
        """Let the program end."""
        with contextlib.suppress(OSError, ValueError):
            self._requests.close()
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()


class TimedSession(Session):
    """A session that measures time where the artifact runs, without the way there and back."""

    @abstractmethod
    def times(self, runs: int) -> list[float]:
        """Seconds of each of ``runs`` runs with the feeds of the last :meth:`Session.run`."""

    @abstractmethod
    def peak_memory(self) -> int:
        """Largest resident set of the program that holds the artifact so far, in bytes."""


class RemoteSession(TimedSession):
    """An artifact that is opened by its own session in the place's Python."""

    def __init__(self, place: Place, program: Program, artifact: Artifact) -> None:
        """Start ``program``, which serves ``artifact``."""
        self._remote = Remote(place, program)
        self._inputs = [entry for entry in artifact.io if entry.role == "input"]
        self._outputs = [entry.source for entry in artifact.io if entry.role == "output"]

    def run(self, feeds: Arrays) -> dict[str, Any]:
        """See :meth:`Session.run`."""
        found = self._remote.run([np.asarray(feeds[entry.source]) for entry in self._inputs])
        if len(found) != len(self._outputs):
            raise StageError(f"{len(found)} outputs came back, the source has {len(self._outputs)}")
        return dict(zip(self._outputs, found, strict=True))

    def times(self, runs: int) -> list[float]:
        """See :meth:`TimedSession.times`."""
        return self._remote.times(runs)

    def peak_memory(self) -> int:
        """See :meth:`TimedSession.peak_memory`."""
        return self._remote.peak_memory()

    def close(self) -> None:
        """See :meth:`Session.close`."""
        self._remote.close()

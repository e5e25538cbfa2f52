"""What a program in another place says on its standard error."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import IO

_MOST_BYTES = 4096
_MOST_CHARACTERS = 300
_JOIN_SECONDS = 2.0


class Complaints:
    """Passes everything on to the own standard error, which is the log of a worker, and keeps the last line."""

    def __init__(self, pipe: IO[bytes]) -> None:
        """Listen to ``pipe`` until its end, in a thread."""
        self._last = ""
        self._thread = threading.Thread(target=self._listen, args=(pipe,), daemon=True)
        self._thread.start()

    def last(self) -> str:
        """The last line that says something, once the program has ended; empty for none."""
        self._thread.join(_JOIN_SECONDS)
        return self._last

    def _listen(self, pipe: IO[bytes]) -> None:
        # A log that takes no more must not stop the program there.
        with pipe:
            while line := pipe.readline(_MOST_BYTES):
                text = line.decode(errors="replace")
                self._last = text.strip()[:_MOST_CHARACTERS] or self._last
                with contextlib.suppress(OSError, ValueError):
                    sys.stderr.write(text)

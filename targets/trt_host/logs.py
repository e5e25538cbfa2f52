"""What TensorRT writes to its logger, kept: its calls return None or -1, and only the log says why."""

from __future__ import annotations

import re
import sys
from typing import Any

#: ``IBuilder::f: Error Code 4: API Usage Error (REASON In validate at /src/file.cpp:12)``
_FORM = re.compile(r"Error Code \d+: [^(]*\((?P<reason>.*?)[.;\s]*In \S+ at \S+\)*\s*$", re.DOTALL)
#: Where there is no GPU, every call leaves these beside what matters.
_NO_DRIVER = "CUDA driver version is insufficient"
#: What follows from an error that stands before it.
_AFTERMATH = ("Parameter check failed",)


def make_log(trt: Any) -> Any:
    """A logger of the module ``trt`` that keeps the errors in ``errors`` and prints warnings to standard error."""

    class Log(trt.ILogger):
        """See :func:`make_log`."""

        def __init__(self) -> None:
            trt.ILogger.__init__(self)  # the binding's own; super() does not reach it
            self.errors: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            if severity in (trt.ILogger.Severity.INTERNAL_ERROR, trt.ILogger.Severity.ERROR):
                self.errors.append(message)
            if severity in (
                trt.ILogger.Severity.INTERNAL_ERROR,
                trt.ILogger.Severity.ERROR,
                trt.ILogger.Severity.WARNING,
            ):
                print(f"TensorRT: {message}", file=sys.stderr)

    return Log()


def reason_in(errors: list[str]) -> str:
    """The first error that is a cause, without codes and places in the source; empty where there is none."""
    causes = [text for text in errors if _NO_DRIVER not in text]
    causes = [text for text in causes if not any(word in text for word in _AFTERMATH)] or causes or errors
    if not causes:
        return ""
    match = _FORM.search(causes[0])
    return " ".join((match["reason"] if match else causes[0]).split())

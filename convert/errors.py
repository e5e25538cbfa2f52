"""The few exceptions of the project; only the command line turns them into text and exit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convert.records import Report


class ConvertError(Exception):
    """A failure that a user can act on: one sentence with what, the value, what is allowed, what to do."""

    exit_code = 1


class InputError(ConvertError):
    """The model, an option or a file given by the user cannot be used (exit code 2)."""

    exit_code = 2


class StageError(ConvertError):
    """A stage of the pipeline failed for a reason that it can name.

    Attributes:
        reason: one sentence for the report.
        advice: what to try next; may be empty.
    """

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice


class ConversionFailed(ConvertError):
    """Not all that was asked for is proven, and the caller of :func:`convert.convert` wanted an error then.

    Attributes:
        report: the report of the run, which has left its output folder as always.
    """

    def __init__(self, reason: str, report: Report) -> None:
        super().__init__(reason)
        self.report = report
        self.exit_code = report.exit_code

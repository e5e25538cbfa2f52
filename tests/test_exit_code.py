"""The exit code of a run: never 0 unless something was proven."""

from __future__ import annotations

import pytest

from convert.pipeline import exit_code
from convert.records import Outcome, Status


@pytest.mark.parametrize(
    ("statuses", "strict", "lenient"),
    [
        ("", 1, 1),
        ("s", 1, 1),
        ("ss", 1, 1),
        ("p", 0, 0),
        ("pp", 0, 0),
        ("ps", 0, 0),
        ("f", 1, 1),
        ("pf", 1, 1),
        ("fp", 1, 1),
        ("d", 3, 0),
        ("pd", 3, 0),
        ("ds", 3, 0),
        ("df", 1, 1),
        ("pdsf", 1, 1),
    ],
)
def test_exit_code(statuses: str, strict: int, lenient: int) -> None:
    words = {"p": Status.PASSED, "f": Status.FAILED, "d": Status.DEFERRED, "s": Status.SKIPPED}
    outcomes = [Outcome("onnx", "float32", "linux/amd64", words[letter], "", "") for letter in statuses]
    assert exit_code(outcomes, allow_deferred=False) == strict
    assert exit_code(outcomes, allow_deferred=True) == lenient

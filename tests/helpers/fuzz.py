"""What the fuzzing tests share: settings that make every run the same, and damage to bytes."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import psutil
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from convert.texts import one_line

#: What reading a file must never do.
FORBIDDEN_EVENTS = ("pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "exec")
_seen: list[str] = []
_watching = [False]


def fuzz(examples: int) -> settings:
    """The same ``examples`` on every run, without a limit of time for one of them."""
    return settings(
        derandomize=True,
        deadline=None,
        database=None,
        max_examples=examples,
        suppress_health_check=list(HealthCheck),
    )


def words() -> st.SearchStrategy[str]:
    """Text that a command line can hold, with more than its share of the signs that the parsers know."""
    signs = st.text("xN=[]{},.-:0123456789 float32int64[\n\t'\"\\\u00b2\u0663é\udc80", max_size=30)
    free = st.text(st.characters(exclude_characters="\0"), max_size=30)
    long = st.sampled_from("1 9N=[.,-(x:/a\n").flatmap(lambda sign: st.integers(1, 6000).map(lambda n: sign * n))
    return st.one_of(signs, free, long)


def require_sentence(error: Exception, most: int | None = None) -> None:
    """One line with something in it, as the command prints it, that does not speak of the inside of the program."""
    text = one_line(error.format_message() if isinstance(error, click.ClickException) else str(error))
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # that is the help, on many lines
        return
    assert getattr(error, "exit_code", None) == 2
    assert most is None or len(text) <= most
    assert text.strip()
    assert len(text.splitlines()) == 1
    assert "Traceback" not in text
    assert "set_int_max_str_digits" not in text


@st.composite
def damaged(draw: st.DrawFn, good: tuple[bytes, ...]) -> bytes:
    """One of ``good`` with bits flipped, bytes replaced, a part cut out, its end cut off or another one put in."""
    data = bytearray(draw(st.sampled_from(good)))
    near_ends = st.one_of(st.integers(0, len(data)), st.integers(0, min(300, len(data))))
    for _ in range(draw(st.integers(1, 6))):
        at = min(draw(near_ends), max(len(data) - 1, 0))
        if draw(st.booleans()):
            at = max(len(data) - 1 - at, 0)
        match draw(st.sampled_from(["flip", "replace", "cut", "end", "insert", "splice", "huge"])):
            case "flip" if data:
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "replace":
                new = draw(st.binary(min_size=1, max_size=12))
                data[at : at + len(new)] = new
            case "cut":
                del data[at : at + draw(st.integers(1, 64))]
            case "end":
                del data[at:]
            case "insert":
                data[at:at] = draw(st.binary(max_size=40))
            case "splice":
                other = draw(st.sampled_from(good))
                data[at:] = other[draw(st.integers(0, len(other))) :]
            case "huge":
                width = draw(st.sampled_from([2, 4, 8]))
                data[at : at + width] = draw(st.sampled_from([b"\xff", b"\x7f", b"\x80"])) * width
    return bytes(data)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    del arguments
    if _watching[0] and event in FORBIDDEN_EVENTS:
        _seen.append(event)


sys.addaudithook(_hook)


@contextmanager
def nothing_runs(events: tuple[str, ...] = FORBIDDEN_EVENTS) -> Iterator[None]:
    """Fail if anything in here unpickles a name, runs code or starts a process."""
    _seen.clear()
    _watching[0] = True
    try:
        yield
    finally:
        _watching[0] = False
    assert [event for event in _seen if event in events] == []


@contextmanager
def little_memory(more: int = 1 << 30) -> Iterator[None]:
    """While this lasts the process gets at most ``more`` bytes of addresses on top of what it has."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)

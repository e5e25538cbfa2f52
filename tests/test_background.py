"""Work that is done beside the tests reaches the test that asked for it, and no other."""

from __future__ import annotations

import threading

import pytest
from helpers.background import Background


def test_a_job_is_done_once_and_its_error_belongs_to_the_one_who_asked() -> None:
    work, done = Background(), list[str]()

    def fail() -> None:
        raise ValueError("broken")

    def succeed() -> int:
        done.append("a")
        return 1

    work.add("a", succeed)
    work.add("b", fail)
    work.add("a", lambda: done.append("again"))
    work.begin()
    assert work.result("a") == 1
    with pytest.raises(ValueError, match="broken"):
        work.result("b")
    assert done == ["a"]


def test_stop_drops_what_has_not_begun() -> None:
    work, begun, go, done = Background(), threading.Event(), threading.Event(), list[str]()

    def first() -> None:
        begun.set()
        go.wait()
        done.append("first")

    work.add("first", first)
    work.add("second", lambda: done.append("second"))
    work.begin()
    begun.wait()
    threading.Timer(0.05, go.set).start()
    work.stop()
    assert done == ["first"]

"""Long work of many tests, begun before the first test so that it runs beside the others."""

from __future__ import annotations

import inspect
import queue
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any

import pytest


class Background:
    """Jobs, one after the other beside the other tests; two at a time as soon as a test waits for one."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._jobs: dict[Hashable, Future[Any]] = {}
        self._threads: list[threading.Thread] = []

    def add(self, key: Hashable, job: Callable[[], Any]) -> None:
        """Have ``job`` done, once for all tests that name the same ``key``."""
        if key not in self._jobs:
            self._jobs[key] = Future()
            self._waiting.put((self._jobs[key], job))

    def begin(self) -> None:
        """Let one more job run beside those that do."""
        self._threads.append(threading.Thread(target=self._work, daemon=True))
        self._threads[-1].start()

    def result(self, key: Hashable) -> Any:
        """Wait for a job; what it raised is raised here."""
        if len(self._threads) < 2:
            self.begin()
        return self._jobs[key].result()

    def stop(self) -> None:
        """Drop what has not begun, and wait for what has."""
        while not self._waiting.empty():
            self._waiting.get()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while True:
            try:
                future, job = self._waiting.get(block=False)
            except queue.Empty:
                return
            try:
                future.set_result(job())
            except Exception as error:  # whatever it is, it belongs to the test that asked for the job
                future.set_exception(error)


def uses_background(item: pytest.Item) -> bool:
    """Whether a test waits for a job; its module says which by ``background_job(**params)``: a key and a function."""
    return isinstance(item, pytest.Function) and "background" in inspect.signature(item.function).parameters


def job_of(item: Any) -> tuple[Hashable, Callable[[], Any]]:
    """What a test waits for."""
    key, job = item.module.background_job(**item.callspec.params)
    return key, job

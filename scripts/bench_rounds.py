"""Contenders of `bench_contender.py` timed in turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from convert.toolchains import find
from convert.validators.latency import Ratio, ratio

SCRIPT = Path(__file__).with_name("bench_contender.py")
TOOLCHAIN = {"tvm": "tvm"}
#: Processes are new in each sitting.
SITTINGS, ROUNDS = 3, 5
_BLOCK = 0.15  # seconds of runs in one block
_MOST_RUNS = 200
#: A process that loads torch.compile's kernels may take long.
_AGREE = 1e-2


class Lost(RuntimeError):
    """A contender did not come up, or ended."""


@dataclass(eq=False)
class Contender:
    """One process; ``what`` and ``file`` are what `bench_contender.py` is told."""

    name: str
    what: str
    file: str
    times: list[list[float]] = field(default_factory=list)
    ready: float = 0.0
    first: list[float] = field(default_factory=list)
    peak_memory_mib: float = 0.0
    _process: subprocess.Popen[str] | None = None

    def start(self, feeds: Path, threads: int) -> Self:
        """Bring it up and run it once."""
        environment = find(TOOLCHAIN.get(self.what, "core"))
        if environment is None:
            raise Lost(f"the toolchain of {self.what} is missing: make toolchains")
        said = {"what": self.what, "file": self.file, "feeds": str(feeds), "threads": threads}
        self._process = subprocess.Popen(
            [str(environment.python), str(SCRIPT), json.dumps(said)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": str(threads), "ORT_DISABLE_TELEMETRY": "1"},
        )
        answer = self._answer()
        self.ready, self.first = answer["ready"], answer["first"]
        return self

    def run(self, runs: int) -> list[float]:
        """Seconds of each of ``runs`` runs."""
        self._tell(str(runs))
        return [float(value) for value in self._answer()["times"]]

    def stop(self) -> None:
        """End it."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.kill()
            process.wait()

    def end(self) -> None:
        """Let it end by itself, and keep its peak memory."""
        assert self._process is not None  # noqa: S101
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.close()
        self.peak_memory_mib = max(self.peak_memory_mib, float(self._answer()["peak_memory_mib"]))
        self.stop()

    def _tell(self, text: str) -> None:
        assert self._process is not None  # noqa: S101
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        for line in self._process.stdout:
            if line.startswith("="):
                return dict(json.loads(line[1:]))
        raise Lost(f"{self.name} ended")


def timed(contenders: list[Contender], feeds: Path, threads: int) -> list[Contender]:
    """Run all of them in turns; gives those that came up, the first of which is the reference.

    Each sitting brings all of them up anew, in another order: where its memory happens to lie makes the same file up
    to a quarter slower, for as long as the process lives.

    Raises:
        Lost: the reference itself did not come up.
    """
    alive = list(contenders)
    for sitting in range(SITTINGS):
        turned = alive[sitting % len(alive) :] + alive[: sitting % len(alive)]
        there = _sit(turned, contenders[0], feeds, threads)
        alive = [one for one in alive if one in there]
    return alive


def _sit(contenders: list[Contender], reference: Contender, feeds: Path, threads: int) -> list[Contender]:
    with ExitStack() as stack:
        alive: list[Contender] = []
        for one in contenders:
            stack.callback(one.stop)
            try:
                alive.append(one.start(feeds, threads))
            except Lost:
                if one is reference:
                    raise
        blocks = [_block(one) for one in alive]
        for _ in range(ROUNDS):
            for one, runs in zip(alive, blocks, strict=True):
                one.times.append(one.run(runs))
        for one in alive:
            one.end()
    return alive


def agree(one: Contender, reference: Contender) -> bool:
    """Whether both gave the same result, as far as a bench must look: the proof is made elsewhere."""
    largest = max(abs(value) for value in reference.first)
    return all(abs(a - b) <= _AGREE * largest for a, b in zip(one.first, reference.first, strict=True))


def against(one: Contender, reference: Contender) -> Ratio:
    """How much longer ``one`` takes, round by round."""
    return ratio(one.times, reference.times)


def middle_ms(one: Contender) -> float:
    """The median of all runs in ms."""
    return 1e3 * statistics.median(time for block in one.times for time in block)


def _block(one: Contender) -> int:
    one.run(1)
    start = time.monotonic()
    one.run(3)
    return max(1, min(_MOST_RUNS, int(3 * _BLOCK / max(time.monotonic() - start, 1e-6))))

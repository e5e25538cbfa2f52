"""How much tuning was asked for, and what is left of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from convert.targets.tvm_tuning.records import Spent


@dataclass
class Budget:
    """Trials or seconds, with what earlier runs took for the same kernels.

    Attributes:
        trials, seconds: the most that all runs together may take; None for no limit of that sort.
        before: what earlier runs took.
        done: trials of this run.
        clock: gives seconds.
    """

    trials: int | None
    seconds: float | None
    before: Spent
    done: int = 0
    clock: Callable[[], float] = time.monotonic
    start: float = field(init=False)

    def __post_init__(self) -> None:
        self.start = self.clock()

    @property
    def elapsed(self) -> float:
        """Seconds of this run."""
        return self.clock() - self.start

    @property
    def left(self) -> int:
        """Trials that may still be made; a number beyond all where only time is limited."""
        if self.seconds is not None and self.before.seconds + self.elapsed >= self.seconds:
            return 0
        return 1 << 30 if self.trials is None else max(0, self.trials - self.before.trials - self.done)

    def describe(self) -> str:
        """``96 of 500 trials, about 6 min left``."""
        total = self.before.trials + self.done
        most = f"{total}" if self.trials is None else f"{total} of {self.trials}"
        ahead = self._ahead()
        return f"{most} trials" + ("" if math.isnan(ahead) else f", about {_duration(ahead)} left")

    def _ahead(self) -> float:
        if self.seconds is not None:
            return max(0.0, self.seconds - self.before.seconds - self.elapsed)
        return self.left * self.elapsed / self.done if self.done else math.nan


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"

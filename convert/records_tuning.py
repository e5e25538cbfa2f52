"""What was asked for the tuning of kernels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """How long to look for schedules, and where to take them from.

    Attributes:
        trials: candidates to time for the kernels of a model, over all runs; None for no limit of that sort.
        seconds: time to spend on them, over all runs; None likewise. Without either nothing is looked for.
        database: a file with schedules; None for only those that were found here.
        use: whether schedules are used at all.
    """

    trials: int | None = None
    seconds: float | None = None
    database: str | None = None
    use: bool = True

    @property
    def wanted(self) -> bool:
        """Whether schedules are to be looked for."""
        return self.trials is not None or self.seconds is not None


@dataclass(frozen=True)
class Tuned:
    """What a run of tuning did.

    Attributes:
        kernels: of the model; ``open_sizes`` more have sizes that are not fixed and cannot be tuned.
        known: kernels with a schedule now.
        trials, seconds: of this run.
        before: trials of earlier runs for the same kernels.
        cost, untuned: seconds of one call of every kernel that was timed, with the best schedules and without.
        file: the database.
    """

    kernels: int
    open_sizes: int
    known: int
    trials: int
    seconds: float
    before: int
    cost: float
    untuned: float
    file: str

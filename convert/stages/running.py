"""The loaded source with all that is needed to call it; every call starts from the state that was loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convert.models.batches import split_into_cases
from convert.models.load import Loaded, load
from convert.models.run import CallPlan, plan_call, run_source
from convert.models.samples import load_samples
from convert.records import Dim, InputSpec, ModelRef
from convert.serial import from_plain
from convert.specs import settle_dims
from convert.stages.inputs import settle_inputs
from convert.stages.integers import bound_integers
from convert.stages.state import State
from convert.worker import Channel

Array = np.ndarray[Any, Any]
MAX_SAMPLE_CASES = 4


@dataclass
class Source:
    """A source that can be called.

    Attributes:
        half: whether it is to be run in float16 as well.
        path: its file.
        truth_failure: why it cannot run in float64; empty where it can.
        updated: the buffers and attributes that some call has changed.
        random: operators that draw random numbers, once somebody has looked for them.
    """

    loaded: Loaded
    plan: CallPlan
    half: bool
    path: str
    truth_failure: str = ""
    updated: set[str] = field(default_factory=set)
    random: tuple[str, ...] = ()
    state: State = field(init=False)

    def __post_init__(self) -> None:
        """Remember the state that the source was loaded with."""
        self.state = State(self.loaded.module)

    def run(
        self, feeds: Mapping[str, Array], dtype: str | None = None, *, keep_state: bool = False
    ) -> dict[str, Array]:
        """Run once, from the state that was loaded.

        Args:
            feeds: an array for every input.
            dtype: None for the source as it is, else ``float64`` or ``float16``.
            keep_state: leave the state as this call leaves it, for the next one.
        """
        try:
            found = run_source(self.loaded, self.plan, feeds, dtype)
            # Not ascontiguousarray, which turns a scalar into an array of one axis.
            return {name: np.asarray(value, order="C") for name, value in found}
        finally:
            if dtype is None:
                self.updated |= set(self.state.changed() if keep_state else self.state.restore())
            elif self.updated:
                self.loaded.cache.clear()  # the copies in other types have changed likewise; they are made anew

    def attempt(self, feeds: Mapping[str, Array], dtype: str) -> dict[str, Array] | None:
        """Run in another precision; None (and the reason, for float64) where the source cannot."""
        try:
            return self.run(feeds, dtype)
        except Exception as error:  # anything a user's module may raise in a precision it was not written for
            if dtype == "float64":
                self.truth_failure = self.truth_failure or f"{type(error).__name__}: {error}".splitlines()[0][:200]
            return None

    def notes(self) -> tuple[str, ...]:
        """What must be said of state and randomness in a source whose outputs repeat."""
        notes: tuple[str, ...] = ()
        if self.updated:
            names = ", ".join(sorted(self.updated))
            notes += (f"forward updates {names}; an artifact gives what the first call gives and keeps no state",)
        if self.random:
            notes += (f"{', '.join(self.random)} draw random numbers in forward, which did not move any output",)
        return notes


@dataclass(frozen=True)
class Opened:
    """A source with its interface settled."""

    source: Source
    specs: tuple[InputSpec, ...]
    dims: tuple[Dim, ...]
    samples: list[dict[str, Array]]
    notes: tuple[str, ...]


def open_source(args: Mapping[str, Any], channel: Channel, loaded: Loaded | None = None) -> Opened:
    """Load ``args['ref']`` (unless it is ``loaded``) and settle its inputs, dimensions and ranges of integers.

    Raises:
        InputError: it cannot be loaded, or its inputs are not known or not accepted.
    """
    ref = from_plain(ModelRef, args["ref"])
    loaded = load(ref) if loaded is None else loaded
    given = from_plain(tuple[InputSpec, ...], args["inputs"])
    names = [name for name in loaded.parameter_names if name not in loaded.constants]
    samples = load_samples(args["samples"], names, ref.trust_pickle) if args["samples"] else None
    settled = settle_inputs(loaded, ref.path, given, samples, channel.say)
    if settled.probed:
        loaded = load(ref)  # what was tried may have left its mark on buffers and caches
    specs: Sequence[InputSpec] = settled.specs
    dims = settle_dims(specs, from_plain(tuple[Dim, ...], args["dims"]), loaded.dims)
    source = Source(loaded, plan_call(loaded, tuple(spec.name for spec in specs)), bool(args["half"]), ref.path)
    feeds = split_into_cases(samples, specs, dims, MAX_SAMPLE_CASES) if samples else []
    specs, range_notes = bound_integers(specs, dims, feeds, source.run)
    return Opened(source, tuple(specs), tuple(dims), feeds, (*settled.notes, *range_notes))

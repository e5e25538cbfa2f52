"""Run a kernel before and after its schedule, on the same random data, with one thread and with several."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from convert.targets.tvm_schedule.races import shared_writes
from convert.targets.tvm_schedule.samples import Guarded, Sample, samples

Array = np.ndarray[Any, Any]

#: Uneven shares, so that a race shows; and more than once, for the same reason.
THREADS, REPEATS = 3, 3
#: Rounding errors of a sum of n terms grow like the square root of n; wrong indices give errors of order one.
EPSILON, BASE, PER_ROOT = 2.0**-23, 16.0, 8.0

#: LLVM's levels: what is shipped, and one that takes little time over code that serves for comparison only.
SHIPPED_CODE, PLAIN_CODE = 3, 1
#: Innermost steps of a kernel without its schedule: some minutes. Counted, so that every machine decides alike.
MOST_STEPS = 5e10


@dataclass(frozen=True)
class Pair:
    """A kernel before and after its schedule, each a ``PrimFunc``."""

    before: Any
    after: Any


@dataclass(frozen=True)
class Runnable:
    """The same as functions of this machine."""

    before: Callable[..., Any]
    after: Callable[..., Any]


def runnable(pairs: Mapping[str, Pair]) -> dict[str, Runnable]:
    """All of them in two modules: TVM takes as long for a module of one kernel as for many."""
    before = _built({name: pair.before for name, pair in pairs.items()}, PLAIN_CODE)
    after = _built({name: pair.after for name, pair in pairs.items()}, SHIPPED_CODE)
    return {name: Runnable(before[name], after[name]) for name in pairs}


def compared(pair: Pair, built: Runnable) -> tuple[str, float | None]:
    """Why a schedule cannot be used, empty where it can; and its largest error.

    The error is a share of what another order of sums explains; None where that says nothing.

    Raises:
        ValueError: the kernel cannot be run alone, or takes too long for a comparison.
    """
    why = shared_writes(pair.after)
    if why:
        return why, None
    given = list(samples(pair.before))
    steps = max(sample.steps for sample in given)
    if steps > MOST_STEPS:
        raise ValueError(f"it is too large to be compared: {steps:.1e} steps, at most {MOST_STEPS:.0e}")
    worst = 0.0
    with _threads() as elsewhere:
        for sample in given:
            why, share = _difference(sample, built.before, built.after, elsewhere)
            worst = max(worst, share)
            if why:
                break
    return why, worst if math.isfinite(worst) else None


def _built(kernels: Mapping[str, Any], level: int) -> dict[str, Callable[..., Any]]:
    import tvm

    # Names of kernels need not be names of C.
    symbols = {name: f"kernel{place}" for place, name in enumerate(kernels)}
    functions = {symbols[name]: kernel.with_attr("global_symbol", symbols[name]) for name, kernel in kernels.items()}
    built = tvm.tirx.build(tvm.IRModule(functions), target=_host(level))
    return {name: built[symbol] for name, symbol in symbols.items()}


def _host(level: int) -> Any:
    import tvm

    cpu = tvm.get_global_func("target.llvm_get_system_cpu", allow_missing=True)
    named = {"mcpu": str(cpu())} if cpu is not None and cpu() else {}
    return tvm.target.Target({"kind": "llvm", "opt-level": level, **named})


def _difference(
    sample: Sample, before: Callable[..., Any], after: Callable[..., Any], elsewhere: ThreadPoolExecutor
) -> tuple[str, float]:
    wanted = _run(before, sample)
    if not all(sample.telling(wanted[index]) for index in sample.results):
        return "its results on random data say nothing", 0.0
    runs = [_run(after, sample), *(elsewhere.submit(_run, after, sample).result() for _ in range(REPEATS))]
    worst = 0.0
    for count, got in enumerate(runs):
        for index, (right, value) in enumerate(zip(wanted, got, strict=True)):
            why, share = deviation(right, value, sample.terms)
            worst = max(worst, share)
            if why:
                threads = "one thread" if count == 0 else f"{THREADS} threads"
                return f"argument {index} differs with {threads}: {why}", worst
    return "", worst


def _run(function: Callable[..., Any], sample: Sample) -> list[Array]:
    """The arguments after a run.

    Raises:
        IndexError: something was written beside an argument.
    """
    arguments = [Guarded(array) for array in sample.arrays]
    function(*(one.tensor() for one in arguments))
    return [one.checked() for one in arguments]


@contextmanager
def _threads() -> Iterator[ThreadPoolExecutor]:
    """One more thread, for which TVM has a pool of several: it reads the number when a thread first needs its pool."""
    wanted = {"TVM_NUM_THREADS": str(THREADS), "TVM_BIND_THREADS": "0"}
    old = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        with ThreadPoolExecutor(1) as pool:
            yield pool
    finally:
        for name, value in old.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def deviation(right: Array, value: Array, terms: int) -> tuple[str, float]:
    """How ``value`` differs by more than another order of sums of ``terms`` can do; empty where it does not.

    The second is the largest difference as a share of that.
    """
    if right.dtype.kind != "f":
        others = int(np.sum(right != value))
        return (f"{others} values are others", math.inf) if others else ("", 0.0)
    finite = np.isfinite(right)
    if not np.array_equal(right[~finite], value[~finite], equal_nan=True) or not np.isfinite(value[finite]).all():
        return "other values are infinite or no numbers", math.inf
    known, found = right[finite].astype(np.float64), value[finite].astype(np.float64)
    if known.size == 0:
        return "", 0.0
    scale = np.maximum(np.abs(known), np.sqrt(np.mean(known**2)))
    epsilon = max(EPSILON, float(np.finfo(right.dtype).eps))
    allowed = epsilon * (BASE + PER_ROOT * terms**0.5) * scale
    shares = np.divide(np.abs(known - found), allowed, out=np.zeros_like(known), where=known != found)
    worst = int(np.argmax(shares))
    share = float(shares[worst])
    if share <= 1.0:
        return "", share
    return f"{found[worst]:.6g} instead of {known[worst]:.6g} (sums of {terms})", share

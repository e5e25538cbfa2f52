"""Run each kernel before and after its schedule, on the same random data, with one thread and with several."""

from __future__ import annotations

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


@dataclass(frozen=True)
class Pair:
    """A kernel before and after its schedule."""

    before: Any
    after: Any


def differences(pairs: Mapping[str, Pair]) -> dict[str, str]:
    """The kernels that cannot be used, and why: built and run on this machine, whatever they are for."""
    before, unbuilt = _built({name: pair.before for name, pair in pairs.items()}, PLAIN_CODE)
    after, wrong = _built({name: pair.after for name, pair in pairs.items()}, SHIPPED_CODE)
    wrong = {name: f"cannot be built: {why}" for name, why in (unbuilt | wrong).items()}
    with _threads() as elsewhere:
        for name, pair in ((name, pair) for name, pair in pairs.items() if name not in wrong):
            why = _reason(pair, before[name], after[name], elsewhere)
            if why:
                wrong[name] = why
    return wrong


def _built(kernels: Mapping[str, Any], level: int) -> tuple[dict[str, Callable[..., Any]], dict[str, str]]:
    """The kernels as functions, all in one module where that can be built; and those that cannot be."""
    try:
        return _functions(kernels, level), {}
    except Exception:  # one of them cannot be built: find which
        made: dict[str, Callable[..., Any]] = {}
        wrong: dict[str, str] = {}
        for name, kernel in kernels.items():
            try:
                made |= _functions({name: kernel}, level)
            except Exception as error:
                wrong[name] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        return made, wrong


def _functions(kernels: Mapping[str, Any], level: int) -> dict[str, Callable[..., Any]]:
    import tvm

    if not kernels:
        return {}
    module = tvm.IRModule({name: kernel.with_attr("global_symbol", name) for name, kernel in kernels.items()})
    built = tvm.tirx.build(module, target=_host(level))
    return {name: built[name] for name in kernels}


def _host(level: int) -> Any:
    import tvm

    cpu = tvm.get_global_func("target.llvm_get_system_cpu", allow_missing=True)
    named = {"mcpu": str(cpu())} if cpu is not None and cpu() else {}
    return tvm.target.Target({"kind": "llvm", "opt-level": level, **named})


def _reason(pair: Pair, before: Callable[..., Any], after: Callable[..., Any], elsewhere: ThreadPoolExecutor) -> str:
    """Why the kernel cannot be used; empty where it can."""
    try:
        why = shared_writes(pair.after)
        for sample in samples(pair.before):
            why = why or _difference(sample, before, after, elsewhere)
    except Exception as error:
        return f"cannot be compared: {type(error).__name__}: {error}".splitlines()[0][:300]
    return why


def _difference(
    sample: Sample, before: Callable[..., Any], after: Callable[..., Any], elsewhere: ThreadPoolExecutor
) -> str:
    wanted = _run(before, sample)
    if not all(sample.telling(wanted[index]) for index in sample.results):
        return "its results on random data say nothing"
    runs = [_run(after, sample), *(elsewhere.submit(_run, after, sample).result() for _ in range(REPEATS))]
    for count, got in enumerate(runs):
        for index, (right, value) in enumerate(zip(wanted, got, strict=True)):
            why = deviation(right, value, sample.terms)
            if why:
                threads = "one thread" if count == 0 else f"{THREADS} threads"
                return f"argument {index} differs with {threads}: {why}"
    return ""


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


def deviation(right: Array, value: Array, terms: int) -> str:
    """How ``value`` differs by more than another order of sums of ``terms`` can do; empty where it does not."""
    if right.dtype.kind != "f":
        return "" if np.array_equal(right, value) else f"{int(np.sum(right != value))} values are others"
    finite = np.isfinite(right)
    if not np.array_equal(right[~finite], value[~finite], equal_nan=True) or not np.isfinite(value[finite]).all():
        return "other values are infinite or no numbers"
    known, found = right[finite].astype(np.float64), value[finite].astype(np.float64)
    if known.size == 0:
        return ""
    scale = np.maximum(np.abs(known), np.sqrt(np.mean(known**2)))
    epsilon = max(EPSILON, float(np.finfo(right.dtype).eps))
    excess = np.abs(known - found) - epsilon * (BASE + PER_ROOT * terms**0.5) * scale
    worst = int(np.argmax(excess))
    return "" if excess[worst] <= 0 else f"{found[worst]:.6g} instead of {known[worst]:.6g} (sums of {terms})"

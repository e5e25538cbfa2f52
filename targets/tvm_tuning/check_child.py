"""The process that runs kernels with their schedules beside those without, one JSON line for each.

It stands alone: it is started as a file, and knows nothing of the project around it.
"""

from __future__ import annotations

import json
import math
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

#: Steps between two additions that may be swapped, beyond those of the sums themselves.
_SLACK = 16.0
_FOREIGN = ("cuda", "rocm", "metal", "hexagon", "riscv_cpu")
_ROUNDS = ("normal", "positive")
_RUNS = 2
#: TVM's number for a variable that a sum runs over.
_REDUCED = 2


def main(file: str) -> None:
    """Check every kernel in ``file``."""
    for name in _FOREIGN:
        sys.modules[f"tvm.s_tir.tensor_intrin.{name}"] = types.ModuleType(name)
    jobs = json.loads(Path(file).read_text(encoding="utf-8"))
    for job in jobs["kernels"]:
        try:
            said = _check(job, jobs["target"])
        except Exception as error:  # whatever a toolkit raises is the end of this kernel only
            lines = str(error).strip().splitlines() or [""]
            said = {"reason": f"{type(error).__name__}: {lines[-1].strip()[:200]}"}
        sys.stdout.write(json.dumps({"key": job["key"], **said}) + "\n")
        sys.stdout.flush()


def _check(job: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    import tvm

    plain = tvm.ir.load_json(job["module"])
    target = tvm.target.Target(settings)
    scheduled = _scheduled(plain, job["trace"], target)
    here = _host(settings)
    first, second = _built(plain, here), _built(scheduled, here)
    function = plain["main"]
    specs = [([int(size) for size in one.shape], str(one.dtype)) for one in function.params]
    worst = _worst(first, second, specs, _longest_sum(function))
    if not worst <= 1.0:
        return {"reason": _words(worst), "error": None if math.isnan(worst) else min(worst, 1e9)}
    return {"module": tvm.ir.save_json(scheduled), "error": worst}


def _words(worst: float) -> str:
    if math.isnan(worst):
        return "its results cannot be compared: random data give no finite numbers"
    return f"it differs from the kernel without a schedule by {worst:.3g} times what the order of sums explains"


def _scheduled(plain: Any, trace: Any, target: Any) -> Any:
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule.trace import Trace

    with target:
        schedule = Schedule(plain)
        Trace.apply_json_to_schedule(trace, schedule)
        return schedule.mod


def _host(settings: dict[str, Any]) -> Any:
    """What the code is made for here: the target itself where it is this machine's, else this machine's own."""
    import platform

    import tvm

    cpu = tvm.get_global_func("target.llvm_get_system_cpu")()
    mine = settings.get("mcpu") == cpu and settings.get("mtriple", platform.machine()).startswith(platform.machine())
    return tvm.target.Target(settings if mine else {"kind": "llvm", "mcpu": str(cpu)})


def _built(module: Any, target: Any) -> Any:
    import tvm

    return tvm.tirx.build(module, target=target)["main"]


def _longest_sum(function: Any) -> int:
    """Terms of the longest sum: the product of all sizes that a block reduces over."""
    from tvm_ffi import structural_walk

    longest = 1

    def look(node: Any) -> None:
        nonlocal longest
        if type(node).__name__ == "SBlock":
            sizes = [int(var.dom.extent) for var in node.iter_vars if int(var.iter_type) == _REDUCED]
            longest = max(longest, math.prod(sizes))

    structural_walk(function.body, look)
    return longest


def _worst(first: Any, second: Any, specs: list[tuple[list[int], str]], terms: int) -> float:
    """The largest difference between two kernels as a share of what is allowed; NaN where there is nothing to compare.

    Every argument is compared, so it need not be known which of them are results.
    """
    import tvm

    worst, compared = 0.0, False
    for seed, kind in enumerate(_ROUNDS):
        feeds = _feeds(specs, kind, seed)
        wanted = _results(first, feeds, tvm)
        for _ in range(_RUNS):
            found = _results(second, feeds, tvm)
            for one, other, feed in zip(wanted, found, feeds, strict=True):
                if not np.array_equal(one, feed, equal_nan=True) or not np.array_equal(other, feed, equal_nan=True):
                    compared = compared or bool(np.isfinite(one).mean() > 0.5)
                    worst = max(worst, _difference(one, other, terms))
    return worst if compared else math.nan


def _results(kernel: Any, feeds: list[Any], tvm: Any) -> list[Any]:
    arrays = [tvm.runtime.tensor(feed) for feed in feeds]
    kernel(*arrays)
    return [array.numpy() for array in arrays]


def _feeds(specs: list[tuple[list[int], str]], kind: str, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    # An index must fit whatever it points into.
    least = min((size for shape, _ in specs for size in shape), default=1)
    feeds = []
    for shape, dtype in specs:
        drawn: Any
        if np.dtype(dtype).kind == "f":
            drawn = rng.normal(size=shape) if kind == "normal" else rng.uniform(0.1, 1.0, size=shape)
        else:
            drawn = rng.integers(0, 2 if dtype == "bool" else max(1, least), size=shape)
        feeds.append(np.asarray(drawn).astype(dtype))
    return feeds


def _difference(one: Any, other: Any, terms: int) -> float:
    if one.dtype.kind != "f":
        return 0.0 if np.array_equal(one, other) else math.inf
    finite = np.isfinite(one)
    if not np.array_equal(finite, np.isfinite(other)):
        return math.inf
    one, other, step = one[finite].astype(np.float64), other[finite].astype(np.float64), np.finfo(one.dtype).eps
    if one.size == 0:
        return 0.0
    # A sum near zero is as inexact as its terms are large, which its neighbours tell.
    size = np.minimum(np.abs(one), np.percentile(np.abs(one), 95)).mean()
    allowed = step * (_SLACK + 4.0 * math.sqrt(terms)) * (np.abs(one) + size) + np.finfo(np.float32).tiny
    return float((np.abs(one - other) / allowed).max())


if __name__ == "__main__":
    main(sys.argv[1])

"""The process that runs kernels with their schedules beside those without; it says one line of JSON for each."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from convert.targets.tvm_schedule.comparison import Pair, Runnable, compared, runnable
from convert.targets.tvm_schedule.intrinsics import leave_out_foreign
from convert.targets.tvm_schedule.report import first_line


def main(file: str) -> None:
    """Look at every kernel in ``file``, in order."""
    leave_out_foreign()
    jobs = json.loads(Path(file).read_text(encoding="utf-8"))
    pairs: dict[str, Pair | Exception] = {job["name"]: _pair(job, jobs["target"]) for job in jobs["kernels"]}
    built = _together(pairs) if jobs["together"] else {}
    for job in jobs["kernels"]:
        said = {"name": job["name"], "reason": "", "share": None, "after": ""}
        try:
            said |= _answer(job, pairs[job["name"]], built)
        except Exception as error:  # whatever a toolkit raises is the end of this kernel only
            said["reason"] = first_line(error)
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


def _pair(job: dict[str, Any], target: str) -> Pair | Exception:
    """The kernel with and without its schedule; where that cannot be had, why."""
    import tvm

    try:
        before = tvm.ir.load_json(job["before"])
        if job["after"]:
            return Pair(before, tvm.ir.load_json(job["after"]))
        return Pair(before, _traced(before, job["trace"], tvm.ir.load_json(target)))
    except Exception as error:
        return error


def _together(pairs: dict[str, Pair | Exception]) -> dict[str, Runnable]:
    """All that can be built at once; nothing where one of them cannot, which is then found by building each alone."""
    try:
        return runnable({name: pair for name, pair in pairs.items() if isinstance(pair, Pair)})
    except Exception:
        return {}


def _answer(job: dict[str, Any], pair: Pair | Exception, built: dict[str, Runnable]) -> dict[str, Any]:
    import tvm

    if isinstance(pair, Exception):
        raise pair
    name = job["name"]
    reason, share = compared(pair, built.get(name) or runnable({name: pair})[name])
    keep = not reason and not job["after"]
    return {"reason": reason, "share": share, "after": str(tvm.ir.save_json(pair.after)) if keep else ""}


def _traced(before: Any, trace: Any, target: Any) -> Any:
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule.trace import Trace

    with target:
        schedule = Schedule(before)
        Trace.apply_json_to_schedule(trace, schedule)
        return schedule.mod["main"]

"""The process that runs kernels with their schedules beside those without; it says one line of JSON for each."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from convert.targets.tvm_schedule.comparison import compared
from convert.targets.tvm_schedule.intrinsics import leave_out_foreign
from convert.targets.tvm_schedule.report import first_line


def main(file: str) -> None:
    """Look at every kernel in ``file``, in order."""
    leave_out_foreign()
    jobs = json.loads(Path(file).read_text(encoding="utf-8"))
    for job in jobs["kernels"]:
        said = {"name": job["name"], "reason": "", "share": None, "after": ""}
        try:
            said |= _answer(job, jobs["target"])
        except Exception as error:  # whatever a toolkit raises is the end of this kernel only
            said["reason"] = first_line(error)
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


def _answer(job: dict[str, Any], target: str) -> dict[str, Any]:
    import tvm

    before = tvm.ir.load_json(job["before"])
    after = tvm.ir.load_json(job["after"]) if job["after"] else _traced(before, job["trace"], tvm.ir.load_json(target))
    reason, share = compared(before, after)
    keep = not reason and not job["after"]
    return {"reason": reason, "share": share, "after": str(tvm.ir.save_json(after)) if keep else ""}


def _traced(before: Any, trace: Any, target: Any) -> Any:
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule.trace import Trace

    with target:
        schedule = Schedule(before)
        Trace.apply_json_to_schedule(trace, schedule)
        return schedule.mod["main"]

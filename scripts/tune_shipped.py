"""Tune the networks of `make bench` on this machine, into the database that comes with the package.

    python scripts/tune_shipped.py 15m       # for each network; a quiet machine

Only schedules that are faster than the rules go in, the best two of each kernel. They serve this machine's kind of CPU
and this version of TVM, and whatever model has the same kernels.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import bench_nets

from convert.steps.job import tuning_folder
from convert.targets.tvm_tuning import database
from convert.targets.tvm_tuning.records import Records

HERE = Path(__file__).resolve().parent
SHIPPED = HERE.parent / "targets" / "tvm_tuning" / "shipped"
KEPT = 2
#: What is less than this faster may be chance, and has to be compiled and compared in every build.
WORTH = 0.95


def tune(factory: str, spec: str, budget: str) -> None:
    """Tune one network; what an earlier run measured counts."""
    command = [sys.executable, "-m", "convert", "tune", f"{HERE / 'bench_nets.py'}:{factory}", "--input", spec]
    subprocess.run([*command, "--tune", budget], check=True)


def best_of(records: Records) -> Records:
    """What is worth shipping."""
    best = Records(records.identity)
    for key, workload in records.workloads.items():
        faster = [
            one for one in workload.records if workload.untuned is not None and one.cost < WORTH * workload.untuned
        ]
        if faster:
            workload.records = faster[:KEPT]
            best.workloads[key] = workload
    return best


def main() -> None:
    """Tune all, and write what came of it."""
    budget = sys.argv[1] if len(sys.argv) > 1 else "15m"
    for factory, spec in bench_nets.NETS.values():
        tune(factory, spec, budget)
    for file in database.files_in(tuning_folder()):
        best = best_of(database.read(file))
        if best.count:
            target = database.file_of(SHIPPED, best.identity)
            database.write(target, best)
            print(f"{target.name}: {best.count} kernels, {target.stat().st_size / 2**10:.0f} KiB")


if __name__ == "__main__":
    main()

"""Schedule, compile and run ONNX files. Run by the Python of TVM's toolchain: ``tvm_schedule_run.py FOLDER [TARGET]``.

For each ``NAME.onnx`` in the folder, ``NAME.npz`` holds feeds and results as ``CASE/in/INPUT`` and ``CASE/out/INDEX``.
Prints, as JSON, name -> the largest error relative to the largest result, the rules, what was dropped. TARGET is the
one to schedule for, as JSON; what it gives is compiled for this machine all the same.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import relax

from convert.targets import tvm_compile
from convert.targets.base import BuildRequest
from convert.targets.tvm_frontend import import_graph
from convert.targets.tvm_schedule.apply import scheduled
from convert.targets.tvm_schedule.proof import verdicts
from convert.targets.tvm_schedule.report import Report
from convert.targets.tvm_schedule.rules import RULES
from helpers.tvm_wrong_kernels import kernels

HOST = {"kind": "llvm", "mcpu": str(tvm.get_global_func("target.llvm_get_system_cpu")())}


def outcome(file: Path, target: dict[str, Any], rules: Any = RULES) -> dict[str, Any]:
    """What became of one file."""
    model = onnx.load(str(file))
    module, report = scheduled(import_graph(model), tvm.target.Target(target), rules)
    machine = relax.VirtualMachine(tvm.compile(module, target=tvm.target.Target(HOST)), tvm.cpu())
    worst = 0.0
    with np.load(file.with_suffix(".npz")) as stored:
        for case in {name.split("/")[0] for name in stored.files}:
            feeds = [tvm.runtime.tensor(stored[f"{case}/in/{entry.name}"]) for entry in model.graph.input]
            result: Any = machine["main"](*feeds)
            values = [result] if hasattr(result, "numpy") else list(result)
            for index, value in enumerate(values):
                wanted = stored[f"{case}/out/{index}"]
                assert value.numpy().shape == wanted.shape, (case, index, value.numpy().shape, wanted.shape)
                error = np.abs(value.numpy() - wanted).max(initial=0) / np.abs(wanted).max(initial=1e-30)
                worst = max(worst, float(error))
    kernels = {one.name: [one.rule, dict(one.parameters), one.dropped] for one in report.kernels}
    return {"error": worst, **report.summary(), "kernels": kernels}


def in_float16(schedule: Any, registers: Any) -> dict[str, Any]:
    """A rule that sums in too small a type."""
    del registers
    schedule.unsafe_set_dtype(schedule.get_sblock("convert_sum"), 0, "float16")
    return {}


def failing(schedule: Any, registers: Any) -> dict[str, Any]:
    """A rule that TVM refuses."""
    schedule.parallel(schedule.get_loops(schedule.get_sblock("convert_sum"))[-1])
    return {"registers": str(registers)}


def fallback(file: Path, why: str) -> dict[str, Any]:
    """A build whose scheduled module is not the source's (``why``) or, without a reason, cannot be built."""
    none: Any = None
    place = file.parent
    request = BuildRequest("tvm", "float32", "onnx", none, place, place, place)
    module = import_graph(onnx.load(str(file)))
    broken = module if why else None
    tvm_compile.scheduled = lambda *_, **__: (broken, Report())  # type: ignore[attr-defined]
    tvm_compile._unlike = lambda *_: why
    settings = tvm_compile.compile_module(module, file.with_suffix(".so"), request)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(file.with_suffix(".so"))), tvm.cpu())
    with np.load(file.with_suffix(".npz")) as stored:
        error = np.abs(machine["main"](tvm.runtime.tensor(stored["0/in/x"])).numpy() - stored["0/out/0"]).max()
    return {"error": float(error), **settings["schedule"]}


def main(folder: Path, target: dict[str, Any]) -> dict[str, Any]:
    """All files of a folder; for this machine's own CPU also what must be dropped."""
    found = {file.stem: outcome(file, target) for file in sorted(folder.glob("*.onnx"))}
    if target is HOST:
        found["!float16"] = outcome(folder / "dense.onnx", target, {**RULES, "dense": in_float16})
        found["!refused"] = outcome(folder / "dense.onnx", target, {**RULES, "dense": failing})
        found["!trials"] = {name: one.reason for name, one in verdicts(kernels(), tvm.target.Target(HOST)).items()}
        found["!other"] = fallback(folder / "dense.onnx", "output y is not the source's")
        found["!unbuilt"] = fallback(folder / "dense.onnx", "")
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), json.loads(sys.argv[2]) if len(sys.argv) > 2 else HOST)))

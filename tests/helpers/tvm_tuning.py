"""Kernels and schedules of an ONNX file. Run by TVM's Python: ``tvm_tuning.py WORD MODEL.onnx …``, prints JSON.

``kernels MODEL`` names the kernels; ``apply MODEL DATABASE [CHILD]`` puts the schedules of a database into them, with
another program to check them where CHILD is given, and says how far the results are from those without; ``tune MODEL
FOLDER TRIALS SPACE`` looks for schedules with made-up times, in TVM's own space or (``own``) in a tiny one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np


def ask(*words: str | Path) -> Any:
    """What a process of TVM's Python says to ``words``."""
    from convert import toolchains
    from helpers import command  # not in that process

    learner = toolchains.find("tvm-tuning")
    assert learner is not None, "tvm-tuning is missing: make toolchains"
    folders = f"{command.ROOT}:{Path(__file__).parent.parent}"
    line: list[str | Path] = [command.python_of("tvm"), __file__, *words]
    environment = os.environ | {"PYTHONPATH": folders, "LEARNER": str(learner.site_packages)}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def _module(model: str) -> tuple[Any, Any]:
    import onnx

    from convert.targets.tvm_compile import _host_target
    from convert.targets.tvm_frontend import import_graph

    return import_graph(onnx.load(model)), _host_target()


def kernels(model: str) -> Any:
    """Key, name, calls and shapes of each kernel, and the identity of this machine."""
    from dataclasses import asdict

    from convert.targets.tvm_tuning.identity import identity_of
    from convert.targets.tvm_tuning.kernels import kernels_of, lowered

    module, target = _module(model)
    found, open_sizes = kernels_of(lowered(module, target))
    rows = [{"key": one.key, "name": one.names[0], "calls": one.calls, "shapes": one.shapes} for one in found]
    return {"kernels": rows, "open_sizes": open_sizes, "identity": asdict(identity_of(target))}


def apply(model: str, file: str, child: str = "") -> Any:
    """The report, and the largest difference between the compiled module and one without schedules."""
    import tvm
    from tvm import relax

    from convert.targets.tvm_schedule import proof
    from convert.targets.tvm_schedule.apply import scheduled
    from convert.targets.tvm_tuning.build import Schedules

    if child:
        proof.CHILD = (child,)
    module, target = _module(model)
    schedules = Schedules.of(target, {"file": file})
    made, _ = scheduled(module, target, tuned=schedules)
    results = []
    for one in (module, made):
        main = relax.VirtualMachine(tvm.compile(one, target=target), tvm.cpu())["main"]
        rng = np.random.default_rng(3)
        parameters = module["main"].params
        shapes = [[int(size) for size in one.ty.shape] for one in parameters]
        results.append(main(*(tvm.runtime.tensor(rng.normal(size=shape).astype(np.float32)) for shape in shapes)))
    first, second = (np.asarray((one if hasattr(one, "numpy") else one[0]).numpy()) for one in results)
    return ({} if schedules is None else schedules.said()) | {"difference": float(np.abs(first - second).max())}


def tune(model: str, folder: str, trials: str, space: str) -> Any:
    """What a run of tuning says, gives and times; every third candidate fails."""
    from dataclasses import asdict

    from convert.targets.tvm_tuning.session import tune as run

    sys.path.append(os.environ["LEARNER"])
    module, target = _module(model)
    said: list[str] = []
    timed: list[tuple[str, int]] = []
    texts: list[str] = []

    def measure(kernels: Any, modules: Any, arguments: Any) -> Any:
        timed.append((kernels[0].names[0], len(modules)))
        texts.extend(one.script() for one in modules)
        return [(1e-3 / (1 + place),) if place % 3 != 1 else "no" for place in range(len(modules))]

    def choice(kernel: Any) -> Any:
        def schedule(sch: Any) -> None:
            block = sch.get_child_blocks(sch.get_sblock("root"))[0]
            rows = sch.get_loops(block)[0]
            sch.split(rows, sch.sample_perfect_tile(rows, 2))

        return None if "tanh" in kernel.names[0] else schedule

    asked = {"folder": folder, "trials": int(trials)}
    found = run(module, target, asked, said.append, lambda: measure, choice if space == "own" else None)
    return {"found": asdict(found), "said": said, "timed": timed, "texts": texts}


if __name__ == "__main__":
    word, *rest = sys.argv[1:]
    print(json.dumps(kernels(*rest) if word == "kernels" else apply(*rest) if word == "apply" else tune(*rest)))

"""Build an artifact of several modules of fixed sizes, with padding between them where running them shows that it may.

``tvm_buckets.py`` makes the plan, ``tvm_padding.py`` the proof; ``tvm_bucket_engine.py`` runs what is made here.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from convert.errors import StageError
from convert.records import Dim
from convert.targets.base import BuildRequest
from convert.targets.tvm_bucket_engine import Engine
from convert.targets.tvm_buckets import Plan, file_of, ladder, make_plan
from convert.targets.tvm_padding import Trial, difference, joint_trial, trials


@dataclass(frozen=True)
class Buckets:
    """What was built: files, the settings that a session needs, and a sentence on them."""

    files: tuple[str, ...]
    settings: dict[str, Any]
    note: str


@dataclass
class _Modules:
    """Modules by their sizes, each compiled once; some serve the proof only."""

    folder: Path
    dims: Sequence[Dim]
    compile_at: Callable[[Mapping[str, int], Path], None]
    load: Callable[[Path], Engine]
    made: dict[str, Path] = field(default_factory=dict)

    def file(self, sizes: Mapping[str, int]) -> Path:
        name = file_of({dim.name: sizes[dim.name] for dim in self.dims})
        if name not in self.made:
            self.compile_at(sizes, self.folder / name)
            self.made[name] = self.folder / name
        return self.made[name]

    def engine(self, sizes: Mapping[str, int]) -> Engine:
        return self.load(self.file(sizes))


def build_buckets(
    request: BuildRequest,
    compile_at: Callable[[Mapping[str, int], Path], None],
    load: Callable[[Path], Engine],
    compile_there: Callable[[Mapping[str, int], Path], None] | None = None,
) -> Buckets:
    """Compile the modules into ``request.folder``.

    Args:
        request: with limits in its settings.
        compile_at: writes the module of some sizes, for this machine, to a file.
        load: gives the module in such a file, to try padding with.
        compile_there: writes a module for another platform; None where the modules to try are those to ship.

    Raises:
        StageError: no size is dynamic, or the dimensions that cannot be padded have too many sizes.
    """
    golden = request.golden
    dims = [dim for dim in golden.dims if dim.max > dim.min]
    if not dims:
        raise StageError("buckets are for dynamic sizes, and every size of this model is fixed; use the route onnx")
    fixed = {dim.name: dim.opt for dim in golden.dims if dim not in dims}
    place = request.scratch / "modules"
    place.mkdir()
    modules = _Modules(place, dims, compile_at, load)
    plan = _plan(request, dims, modules)
    buckets: list[dict[str, Any]] = []
    for sizes in plan.modules:
        name = file_of({dim.name: sizes[dim.name] for dim in dims})
        if compile_there is None:
            shutil.copyfile(modules.file(sizes | fixed), request.folder / name)
        else:
            compile_there(sizes | fixed, request.folder / name)
        buckets.append({"file": name, "dims": sizes})
    settings = {
        "buckets": buckets,
        "padded": list(plan.padded),
        "range": {dim.name: [dim.min, dim.max] for dim in golden.dims},
        "inputs": [list(spec.shape) for spec in golden.inputs],
        "outputs": [list(spec.shape) for spec in golden.outputs],
    }
    return Buckets(tuple(one["file"] for one in buckets), settings, _note(plan, len(buckets)))


def _plan(request: BuildRequest, dims: Sequence[Dim], modules: _Modules) -> Plan:
    cases = request.golden.cases
    ladders: dict[str, tuple[int, ...]] = {}
    reasons: dict[str, str] = {}
    for dim in dims:
        steps = ladder(dim, {case.dims[dim.name] for case in cases})
        reasons[dim.name] = _unsound(request, dim, steps, modules) if steps else "it has too few sizes to prove it on"
        if reasons[dim.name]:
            make_plan([dim], {}, reasons)  # fails at once where its sizes alone are too many
        else:
            ladders[dim.name] = steps
    plan = make_plan(dims, ladders, reasons)
    both = joint_trial(plan.padded, plan.sizes, cases)
    why = "" if both is None else _difference(request, both, modules)
    if why:
        names = " and ".join(plan.padded)
        raise StageError(f"{names} can be padded alone and not at once: {why}; fix one of them with --input")
    return plan


def _unsound(request: BuildRequest, dim: Dim, steps: Sequence[int], modules: _Modules) -> str:
    for trial in trials(dim, steps, request.golden.cases):
        why = _difference(request, trial, modules)
        if why:
            return why
    return ""


def _difference(request: BuildRequest, trial: Trial, modules: _Modules) -> str:
    return difference(trial, request.golden, request.golden_folder, request.settings["limits"], modules.engine)


def _note(plan: Plan, count: int) -> str:
    made = ", ".join(f"{name}={'|'.join(map(str, steps))}" for name, steps in plan.sizes.items())
    names = ", ".join(plan.padded)
    between = f"; other sizes of {names} are padded to the next of these" if names else ""
    return f"{count} modules of fixed sizes ({made}){between}"

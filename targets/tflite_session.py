"""Run a TFLite file, and find out how its tensors correspond to the source's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from convert.errors import StageError
from convert.golden_io import CaseData, load_case
from convert.records import Artifact, InputSpec, IoEntry, OutputSpec
from convert.targets.base import Arrays, BuildRequest, Session
from convert.targets.casting import cast_exactly

Array = np.ndarray[Any, Any]
Shapes = tuple[tuple[int, ...], ...]


def _interpreter(file: Path, threads: int, delegates: bool) -> Any:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kind = OpResolverType.AUTO if delegates else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    return Interpreter(str(file), num_threads=threads, experimental_op_resolver_type=kind)


def invoke(interpreter: Any, indices: Sequence[int], values: Sequence[Array], shapes: Shapes) -> Shapes:
    """Run once on ``values``, one per tensor of ``indices``, resizing only where ``shapes`` were others before."""
    new = tuple(value.shape for value in values)
    if new != shapes:
        for index, shape in zip(indices, new, strict=True):
            interpreter.resize_tensor_input(index, shape, strict=False)
        interpreter.allocate_tensors()
    for index, value in zip(indices, values, strict=True):
        interpreter.set_tensor(index, value)
    interpreter.invoke()
    return new


class LiteRtSession(Session):
    """The stock interpreter; resizes before each new shape, and does without XNNPACK where that refuses one."""

    def __init__(self, file: Path, io: Sequence[IoEntry], threads: int) -> None:
        """Load ``file``; ``io`` says which of its tensors are which of the source's."""
        self._file, self._threads = file, threads
        self._io = io
        self._dtypes: dict[str, Any] = {}
        self._load(delegates=True)

    def _load(self, delegates: bool) -> None:
        self._delegates = delegates
        self._interpreter = _interpreter(self._file, self._threads, delegates)
        details = (*self._interpreter.get_input_details(), *self._interpreter.get_output_details())
        by_name = {detail["name"]: detail for detail in details}
        self._inputs = [(e, by_name[e.name]) for e in self._io if e.role == "input"]
        self._outputs = [(e, by_name[e.name]) for e in self._io if e.role == "output"]
        self._shapes: Shapes = ()

    def run(self, feeds: Arrays) -> dict[str, Any]:
        """See :meth:`Session.run`."""
        values = [to_artifact(entry, feeds[entry.source], detail) for entry, detail in self._inputs]
        try:
            self._run(values)
        except (RuntimeError, ValueError):
            if not self._delegates:
                raise
            self._load(delegates=False)
            self._run(values)
            self.notes = ("the XNNPACK delegate refused a shape, so the file runs on the built-in kernels",)
        return {
            entry.source: _to_source(entry, self._interpreter.get_tensor(detail["index"]))
            for entry, detail in self._outputs
        }

    def _run(self, values: Sequence[Array]) -> None:
        indices = [detail["index"] for _, detail in self._inputs]
        self._shapes = invoke(self._interpreter, indices, values, self._shapes)


def _axes(entry: IoEntry) -> tuple[int, ...] | None:
    return None if entry.layout == "same" else tuple(int(axis) for axis in entry.layout.split(","))


def to_artifact(entry: IoEntry, value: Array, detail: Mapping[str, Any]) -> Array:
    """One input of the source as the file takes it: its layout, its dtype, its integers."""
    axes, dtype = _axes(entry), np.dtype(detail["dtype"])
    moved = value if axes is None else value.transpose(axes)
    if entry.scale is not None and entry.zero_point is not None:
        if np.isnan(moved).any():
            raise StageError(f"{entry.source} holds NaN, and the artifact takes {dtype.name}, which has no NaN")
        limits = np.iinfo(dtype)
        steps = np.rint(moved.astype(np.float64) / entry.scale)
        moved = np.clip(steps + entry.zero_point, limits.min, limits.max).astype(dtype)
    return np.asarray(cast_exactly(entry.source, moved, dtype), order="C")


def _to_source(entry: IoEntry, value: Array) -> Array:
    axes = _axes(entry)
    restored = value if axes is None else value.transpose(np.argsort(axes))
    if entry.scale is not None and entry.zero_point is not None:
        restored = (restored.astype(np.float64) - entry.zero_point) * entry.scale
    return cast_exactly(entry.source, restored, entry.source_dtype)


def describe_io(request: BuildRequest, file: Path) -> tuple[tuple[IoEntry, ...], tuple[str, ...]]:
    """Match the file's tensors with the source's, by name or order, and find the layout of each output.

    The layout of outputs is found by running the optimum case: a converter may hand out channels-last what the source
    gives channels-first, and only values can tell where sizes are equal. The check proves the choice in every case.

    Raises:
        StageError: the counts differ, or an output fits in no layout.
    """
    interpreter = _interpreter(file, 1, delegates=True)
    golden = request.golden
    ins, outs = _signature(interpreter)
    inputs, outputs = _match(golden.inputs, ins, "input"), _match(golden.outputs, outs, "output")
    entries = (*inputs, *outputs)
    if request.base is not None:
        return _laid_out_as(request.base, entries), ()
    case = next(case for case in golden.cases if case.name == "opt-draw0")
    return _with_layouts(file, entries, load_case(request.golden_folder, case))


def _signature(interpreter: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Name -> tensor of the file's one signature; without a signature, the tensors under their own names."""
    keys = list(interpreter.get_signature_list())
    if keys:
        runner = interpreter.get_signature_runner(keys[0])
        return dict(runner.get_input_details()), dict(runner.get_output_details())
    return (
        {detail["name"]: detail for detail in interpreter.get_input_details()},
        {detail["name"]: detail for detail in interpreter.get_output_details()},
    )


def _match(specs: Sequence[InputSpec | OutputSpec], details: Mapping[str, Any], role: str) -> list[IoEntry]:
    if len(specs) != len(details):
        raise StageError(f"the TFLite file has {len(details)} {role}s, the source has {len(specs)}")
    by_name = all(spec.name in details for spec in specs)
    ordered = [details[spec.name] for spec in specs] if by_name else _numbered(details)
    return [_entry(spec, role, detail) for spec, detail in zip(specs, ordered, strict=True)]


def _entry(spec: InputSpec | OutputSpec, role: str, detail: Mapping[str, Any]) -> IoEntry:
    dtype, shape = np.dtype(detail["dtype"]), tuple(int(size) for size in detail["shape_signature"])
    entry = IoEntry(spec.name, role, detail["name"], dtype.name, shape, source_dtype=spec.dtype)
    if dtype.kind not in "iu" or not spec.dtype.startswith("float"):
        return entry
    scale, zero_point = detail["quantization"]
    if not scale > 0:
        raise StageError(f"the TFLite file has {role} {spec.name} as {dtype.name}, and no scale says what it means")
    return replace(entry, scale=float(scale), zero_point=int(zero_point))


def _numbered(details: Mapping[str, Any]) -> list[Any]:
    """litert-torch numbers its tensors (``args_0``, ``output_0``) in the order of the module's own."""
    numbers = {name: re.search(r"(\d+)$", name) for name in details}
    if any(match is None for match in numbers.values()):
        return list(details.values())
    return [details[name] for name in sorted(details, key=lambda name: int(numbers[name][1]))]  # type: ignore[index]


def _laid_out_as(base: Artifact, entries: Sequence[IoEntry]) -> tuple[IoEntry, ...]:
    """The layouts that were proven with the file that this one is made from: values of few bits could mislead."""
    layouts = {(entry.role, entry.source): entry.layout for entry in base.io}
    return tuple(replace(entry, layout=layouts[entry.role, entry.source]) for entry in entries)


def _with_layouts(
    file: Path, entries: Sequence[IoEntry], data: CaseData
) -> tuple[tuple[IoEntry, ...], tuple[str, ...]]:
    session = LiteRtSession(file, entries, 1)
    raw = session.run(data.feeds)
    found, notes = [], []
    for entry in entries:
        layout = "same" if entry.role == "input" else _layout(entry, raw[entry.source], data.outputs[entry.source])
        if layout != "same":
            notes.append(f"output {entry.source} comes out with its axes in the order {layout} of the source's")
        found.append(replace(entry, layout=layout))
    return tuple(found), tuple(notes)


def _layout(entry: IoEntry, got: Array, wanted: Array) -> str:
    best, best_error = "same", np.inf
    for axes in _permutations(wanted.ndim):
        moved = wanted.transpose(axes)
        if moved.shape != got.shape:
            continue
        error = float(np.nansum(np.abs(moved.astype(np.float64) - got.astype(np.float64))))
        # Strictly smaller: the source's own order comes first and wins a draw.
        if error < best_error:
            best_error = error
            best = "same" if axes == tuple(range(wanted.ndim)) else ",".join(map(str, axes))
    if best_error == np.inf and got.shape != wanted.shape:
        raise StageError(
            f"output {entry.source} has the shape {list(got.shape)}, the source's is "
            f"{list(wanted.shape)}, and no order of axes makes them alike"
        )
    return best


def _permutations(rank: int) -> list[tuple[int, ...]]:
    """The orders that converters produce: as is, and channels moved to the end."""
    plain = tuple(range(rank))
    return [plain, (0, *range(2, rank), 1)] if rank in (3, 4, 5) else [plain]

"""Integer TFLite files by ai-edge-quantizer, from the float32 file that passed."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from convert.errors import StageError
from convert.golden_io import load_case
from convert.targets.base import BuildRequest
from convert.targets.range_cache import cached
from convert.targets.ranges import Range
from convert.targets.tflite_bias import weight_bounds
from convert.targets.tflite_freeze import freeze, simplify
from convert.targets.tflite_fuse import fused
from convert.targets.tflite_measure import measure
from convert.targets.tflite_named import Graph, Operator, read, write
from convert.targets.tflite_operators import read_operators
from convert.targets.tflite_ranges import learned_ranges

#: Bits of the activations of each precision whose ranges must be known; weights always have 8.
ACTIVATION_BITS: Mapping[str, int] = {"int8": 8, "int16x8": 16}
#: How the note begins that sizes are fixed; the file is then held to these sizes only.
FIXED_AT = "every size is fixed at"
#: The quantizer looks at so many characters of the names.
_LONGEST_SCOPE = 10_000
INTEGER = ("int8-dynamic", *ACTIVATION_BITS)


@dataclass(frozen=True)
class Prepared:
    """A float file ready to be quantized.

    Attributes:
        content: the file, its sizes fixed where that makes it more of an integer.
        ranges: name of a tensor -> range.
        notes: for the report.
    """

    content: bytes
    ranges: dict[str, Range]
    notes: tuple[str, ...]


def build(request: BuildRequest, file: Path) -> tuple[str, ...]:
    """Write the integer file with its dynamic sizes if it is fully integer so, else with fixed ones; gives notes."""
    return _build(request, file, frozen=False)


def build_frozen(request: BuildRequest, file: Path) -> tuple[str, ...]:
    """The same with every size fixed in any case, for a file that came out wrong at another size."""
    if not request.golden.dims:
        raise StageError("there is no dynamic dimension, so this route is the same as ai-edge-quantizer")
    return _build(request, file, frozen=True)


def _build(request: BuildRequest, file: Path, *, frozen: bool) -> tuple[str, ...]:
    notes: tuple[str, ...]
    if request.precision == "int8-dynamic":
        content, notes = dynamic(request), ()
    else:
        prepared = prepare(request, frozen=frozen)
        io_type = request.quantization.io_type
        content = quantize(prepared, ACTIVATION_BITS[request.precision], io_type=io_type, keep=request.keep)
        notes = prepared.notes
    file.write_bytes(content)
    assert request.base is not None  # noqa: S101  (needs="base")
    return (f"made from the float32 file of route {request.base.route}", *notes)


def dynamic(request: BuildRequest) -> bytes:
    """Weights of 8 bits per channel; the kernels turn activations into integers as they come.

    Raises:
        StageError: no operator has weights that this is for, so that the file would be the float32 file.
    """
    from ai_edge_quantizer import recipe_manager
    from ai_edge_quantizer.qtyping import TFLOperationName

    manager = recipe_manager.RecipeManager()
    manager.add_dynamic_config(".*", TFLOperationName.ALL_SUPPORTED, 8)
    source = _source(request)
    kept = [operator for operator in read(source).operators() if operator.name in request.keep]
    content = _run(source.read_bytes(), _without(manager, kept), None)
    if not any("int8 weights" in label for label in read_operators(content).floating):
        kinds = ", ".join(sorted({operator.kind for operator in read(source).operators()}))
        raise StageError(f"no operator ({kinds}) has weights that int8-dynamic could store as integers; use float16")
    return content


def prepare(request: BuildRequest, *, frozen: bool = False) -> Prepared:
    """Measure the ranges, and decide whether the sizes must be fixed for the file to be fully integer.

    Args:
        request: with calibration data or learned ranges, and the float32 file as its base.
        frozen: fix them in any case.

    Raises:
        StageError: there are neither.
    """
    source, bits = _source(request), ACTIVATION_BITS[request.precision]
    ranges, notes = _ranges(request, source, bits)
    plain = Prepared(source.read_bytes(), ranges, notes)
    floats = _floats(plain, bits)
    if not floats and not frozen:
        return plain
    content = None if frozen else _simplified(request, source)
    if content is not None:
        found = replace(plain, content=content, notes=(*notes, "operators that only work out sizes were taken out"))
        left = _floats(found, bits)
        if not left:
            return found
        plain, floats = (found, left) if left < floats else (plain, floats)
    assert request.base is not None  # noqa: S101  (needs="base")
    fixed = replace(plain, content=freeze(source, request.base, _feeds(request, "opt-draw0")), notes=notes)
    if not frozen and _floats(fixed, bits) >= floats:
        return plain
    if not request.golden.dims:
        return fixed
    sizes = ", ".join(f"{dim.name}={dim.opt}" for dim in request.golden.dims)
    why = "" if frozen else f"; with dynamic sizes {floats} operators would compute in float"
    return replace(fixed, notes=(*notes, f"{FIXED_AT} {sizes}{why}"))


def _simplified(request: BuildRequest, source: Path) -> bytes | None:
    """The file with dynamic sizes and less to work out; None where there are none, or no case to tell it by."""
    opt = {dim.name: dim.opt for dim in request.golden.dims}
    cases = [case for case in request.golden.cases if all(case.dims[name] != size for name, size in opt.items())]
    if not opt or not cases:
        return None
    assert request.base is not None  # noqa: S101  (needs="base")
    return simplify(source, request.base, _feeds(request, "opt-draw0"), _feeds(request, cases[0].name))


def _feeds(request: BuildRequest, name: str) -> dict[str, Any]:
    case = next(case for case in request.golden.cases if case.name == name)
    return load_case(request.golden_folder, case).feeds


def _floats(prepared: Prepared, bits: int) -> int:
    return sum(read_operators(quantize(prepared, bits)).floating.values())


def _source(request: BuildRequest) -> Path:
    assert request.base is not None and request.base_folder is not None  # noqa: S101, PT018  (needs="base")
    return fused(request.base_folder / request.base.files[0], request.scratch)


def _ranges(request: BuildRequest, source: Path, bits: int) -> tuple[dict[str, Range], tuple[str, ...]]:
    if request.ranges is not None and (bits == 8 or request.calibration is None):
        return learned_ranges(request, source)
    if request.calibration is None:
        raise StageError(
            f"{request.precision} needs the ranges of the activations, and there are no calibration data",
            "give real inputs with --calibration FILE, or choose int8-dynamic, which needs none",
        )
    assert request.base is not None  # noqa: S101  (needs="base")
    io, data, asked = request.base.io, request.calibration, request.quantization
    rule = asked.rule
    settings = {"by": "litert", "data": data.key, "rule": rule, "percentile": asked.percentile, "bits": bits}
    ranges, batches = cached(
        request.settings.get("calibration_cache"),
        source.read_bytes(),
        settings,
        lambda: measure(source, io, data, asked, bits),
    )
    said = f"{rule} {request.quantization.percentile:g} %" if rule == "percentile" else rule
    notes: tuple[str, ...] = (f"ranges measured on {batches} batches by {said}",)
    if rule == "mse" and bits == 16:
        notes += ("activations of 16 bits take the whole range: their rounding is next to nothing",)
    return ranges, notes


def quantize(prepared: Prepared, bits: int, io_type: str = "float", keep: Collection[str] = ()) -> bytes:
    """The content of the integer file.

    Args:
        prepared: a float file and its ranges; what touches a tensor without one stays in float.
        bits: of the activations, 8 or 16.
        io_type: ``float`` or ``int8``: whether inputs and outputs are floats or the integers.
        keep: names of operators that stay in float.

    Raises:
        StageError: ``keep`` names an operator that is not there, or the quantizer cannot do it.
    """
    from ai_edge_quantizer import recipe_manager
    from ai_edge_quantizer.qtyping import TFLOperationName

    graph = read(prepared.content)
    manager = recipe_manager.RecipeManager()
    manager.add_static_config(".*", TFLOperationName.ALL_SUPPORTED, bits, 8)
    if io_type == "float":
        for name in (TFLOperationName.INPUT, TFLOperationName.OUTPUT):
            manager.add_quantization_config(".*", name, None, "no_quantize")
    unknown = set(keep) - {operator.name for operator in graph.operators()}
    if unknown:
        raise StageError(f"the file has no operator {sorted(unknown)[0]!r} that could stay in float")
    floats = [op for op in graph.operators() if op.name in keep or not _measured(graph, op, prepared.ranges)]
    return _run(prepared.content, _without(manager, floats), _statistics(graph, prepared.ranges, bits))


def _measured(graph: Graph, operator: Operator, ranges: Mapping[str, Range]) -> bool:
    """Whether every floating tensor has a range, and every floating constant is finite."""
    for tensor in (*operator.inputs, *operator.outputs):
        if tensor.floating and tensor.constant:
            if not np.isfinite(graph.values(operator.subgraph, tensor)).all():
                return False
        elif tensor.floating and tensor.name not in ranges:
            return False
    return True


def _without(manager: Any, operators: Iterable[Operator]) -> Any:
    """Add to the recipe that operators stay as they are; it knows them by the names of all their outputs."""
    from ai_edge_quantizer.qtyping import TFLOperationName

    for operator in operators:
        names = [tensor.name for tensor in operator.outputs or operator.inputs if tensor.name]
        scope = f"^{re.escape(''.join(f'{name};' for name in names)[:_LONGEST_SCOPE])}$"
        manager.add_quantization_config(scope, TFLOperationName.ALL_SUPPORTED, None, "no_quantize")
    return manager


def _statistics(graph: Graph, ranges: Mapping[str, Range], bits: int) -> dict[str, dict[str, Any]]:
    """What ai-edge-quantizer would have measured itself: arrays of the tensor's rank."""
    found: dict[str, dict[str, Any]] = {}
    # A tensor that was zero throughout needs a step all the same; zero is exact with any.
    ranges = {name: (0.0, 1.0) if low == high == 0.0 else (low, high) for name, (low, high) in ranges.items()}
    tensors = graph.model.subgraphs[0].tensors
    for index in range(len(tensors)):
        tensor = graph.tensor(0, index)
        if tensor.name in ranges and not tensor.constant:
            low, high = ranges[tensor.name]
            form = (1,) * (0 if tensors[index].shape is None else len(tensors[index].shape))
            found[tensor.name] = {"min": np.full(form, low, np.float32), "max": np.full(form, high, np.float32)}
    for name, bound in weight_bounds(graph, ranges, bits).items():
        found[name] = {"min": -bound, "max": bound}
    return found


def _run(content: bytes, manager: Any, statistics: dict[str, dict[str, Any]] | None) -> bytes:
    from ai_edge_quantizer import quantizer

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the memory that its interpreters take
            work = quantizer.Quantizer(bytearray(_with_signatures(content)), manager.get_quantization_recipe())
            made = read(
                bytes(
                    work.quantize(statistics, enable_progress_bar=False, enable_progress_report=False).quantized_model
                )
            )
    except (RuntimeError, ValueError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise StageError(f"ai-edge-quantizer refused the file: {lines[0][:300]}") from error
    _keep_dynamic(made)
    return write(made)


def _with_signatures(content: bytes) -> bytes:
    """The quantizer looks through the list of signatures, and a file need have none."""
    graph = read(content)
    if graph.model.signatureDefs is not None:
        return content
    graph.model.signatureDefs = []
    return write(graph)


def _keep_dynamic(graph: Graph) -> None:
    """Say of the tensors at the boundary which sizes are dynamic, as the quantizer forgets to."""
    for part in graph.model.subgraphs:
        for operator in part.operators:
            if len(operator.inputs) == len(operator.outputs) == 1 and not operator.builtinOptions:
                source, result = (part.tensors[places[0]] for places in (operator.inputs, operator.outputs))
                if result.shapeSignature is None and list(source.shape) == list(result.shape):
                    result.shapeSignature = source.shapeSignature

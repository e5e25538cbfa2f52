"""Which nodes of an ONNX graph lose most by integers: each is quantized alone, and its noise at the outputs taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from convert.errors import StageError
from convert.records import Layer
from convert.targets.base import BuildRequest
from convert.targets.noise import noise
from convert.targets.onnx_files import save_graph
from convert.targets.onnx_quant import measured, prepared, with_ranges
from convert.targets.onnx_quant_plan import CPU_7BIT, make_plan
from convert.targets.ranges import Range

#: Batches that the noise is measured on; a ranking settles long before an accuracy does.
MOST_BATCHES = 4
#: A node alone (of 7 bits, so that no CPU's overflow stands in for its noise) has floats around it.
_ALONE = replace(CPU_7BIT, islands=True)


def rank(request: BuildRequest) -> tuple[Layer, ...]:
    """The nodes that int8 would put into integers, by the noise that each alone adds, worst first.

    Raises:
        StageError: the precision has no single layers, or there is no calibration data.
    """
    import onnx

    if request.precision != "int8":
        raise StageError(f"onnx cannot keep single layers in float at precision {request.precision}; it can at int8")
    assert request.base is not None  # noqa: S101  (int8 is made from the base)
    assert request.base_folder is not None  # noqa: S101
    source = request.base_folder / request.base.files[0]
    graph = prepared(onnx.load(str(source)))
    ranges = measured(request, graph, CPU_7BIT)
    assert request.calibration is not None  # noqa: S101  (measured would have refused)
    batches = list(islice(request.calibration, MOST_BATCHES))
    wanted = _outputs(source, batches)
    planned = make_plan(graph, CPU_7BIT, ranges).nodes
    # What merely moves values follows its neighbours.
    computing = [name for name, node in planned.items() if node.op_type in CPU_7BIT.operators]
    found = []
    for name in computing:
        file = _alone(source, name, computing, ranges, request.scratch)
        added = noise(_outputs(file, batches), wanted)
        found.append(Layer(name, planned[name].op_type, added))
    return tuple(sorted(found, key=lambda layer: -layer.noise))


def _alone(source: Path, name: str, computing: Iterable[str], ranges: Mapping[str, Range], scratch: Path) -> Path:
    import onnx

    graph = prepared(onnx.load(str(source)))
    others = tuple(other for other in computing if other != name)
    file = scratch / "alone.onnx"
    save_graph(with_ranges(graph, _ALONE, ranges, others).model, file)
    return file


def _outputs(file: Path, batches: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return [dict(zip(names, session.run(names, dict(batch)), strict=True)) for batch in batches]

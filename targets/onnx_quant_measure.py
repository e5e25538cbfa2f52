"""Run a float32 graph and look at the values inside it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from convert.errors import StageError
from convert.records import Quantization
from convert.targets.onnx_files import save_graph
from convert.targets.ranges import Range, Ranges


def measure(
    model: Any,
    names: Collection[str],
    batches: Iterable[Mapping[str, Any]],
    asked: Quantization,
    scratch: Path,
    *,
    symmetric: bool,
) -> dict[str, Range]:
    """Ranges of the values ``names`` over ``batches``, which are read one at a time.

    Raises:
        StageError: there is not one batch.
    """
    import onnx

    inputs = {value.name for value in model.graph.input}
    inside = [name for name in sorted(names) if name not in inputs]
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inside)
    session = plain_session(probe, scratch / "measured.onnx") if inside else None
    ranges, count = Ranges(asked.rule, asked.percentile, symmetric=symmetric), 0
    for batch in batches:
        count += 1
        ranges.add({name: value for name, value in batch.items() if name in names})
        if session is not None:
            ranges.add(dict(zip(inside, session.run(inside, dict(batch)), strict=True)))
    if not count:
        raise StageError("the calibration data is empty; give at least one sample with --calibration")
    return ranges.result()


def plain_session(model: Any, file: Path) -> Any:
    """A session without optimisations on ``model``, which is written to ``file`` first, since it may be large."""
    save_graph(model, file)
    return plain_session_of(file)


def plain_session_of(file: Path) -> Any:
    """A session without optimisations, in which every value keeps its name and every operator its kernel."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

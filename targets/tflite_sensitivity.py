"""Rank the operators of an integer TFLite file by the noise that each adds when it alone computes in integers.

Each is quantized alone, with its inputs, weights and outputs, and the file is run. For a model with many operators
neighbours are quantized together first, and the worst groups are halved until the runs are used up.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from convert.errors import StageError
from convert.records import Layer
from convert.targets.base import BuildRequest
from convert.targets.noise import noise
from convert.targets.tflite_measure import first
from convert.targets.tflite_named import Operator, read
from convert.targets.tflite_quant import ACTIVATION_BITS, Prepared, prepare, quantize
from convert.targets.tflite_session import LiteRtSession, describe_io

#: A ranking settles long before an accuracy does.
SAMPLES = 32
#: Runs of a file with one group quantized.
MOST_RUNS = 160

Array = np.ndarray[Any, Any]
Measure = Callable[[Sequence[str]], float | None]


def rank(request: BuildRequest) -> tuple[Layer, ...]:
    """See :meth:`convert.targets.base.Target.sensitivity`."""
    if request.precision not in ACTIVATION_BITS:
        raise StageError(
            f"tflite cannot rank layers at precision {request.precision}; it can at {' and '.join(ACTIVATION_BITS)}"
        )
    prepared, bits = prepare(request), ACTIVATION_BITS[request.precision]
    layers = _layers(prepared, bits)
    assert request.calibration is not None  # noqa: S101  (prepare would have refused)
    batches = list(first(request.calibration, SAMPLES))
    wanted = _outputs(request, prepared.content, batches)
    names = [layer.name for layer in layers]

    def measure(group: Sequence[str]) -> float | None:
        try:
            content = quantize(prepared, bits, keep=[name for name in names if name not in set(group)])
        except StageError:
            return None  # these cannot compute in integers without their neighbours, so they cannot be judged alone
        return noise(_outputs(request, content, batches), wanted)

    found = measure_groups(names, measure, MOST_RUNS)
    ranked = [Layer(layer.name, layer.kind, found[layer.name]) for layer in layers if layer.name in found]
    return tuple(sorted(ranked, key=lambda layer: -layer.noise))


def _layers(prepared: Prepared, bits: int) -> list[Operator]:
    """The operators of the float file that compute in integers once all are quantized."""
    whole = read(quantize(prepared, bits)).operators()
    floating = {op.name for op in whole if any(t.floating for t in (*op.inputs, *op.outputs))}
    operators = [op for op in read(prepared.content).operators() if op.subgraph == 0]
    concerned = [op for op in operators if any(tensor.floating for tensor in op.outputs)]
    return [op for op in concerned if op.name not in floating]


def _outputs(request: BuildRequest, content: bytes, batches: Sequence[dict[str, Array]]) -> list[dict[str, Array]]:
    file = request.scratch / "ranked.tflite"
    file.write_bytes(content)
    io, _ = describe_io(request, file)
    session = LiteRtSession(file, io, 1)
    return [{name: np.array(value) for name, value in session.run(batch).items()} for batch in batches]


def measure_groups(names: Sequence[str], measure: Measure, most_runs: int) -> dict[str, float]:
    """The noise of every layer by at most about ``most_runs`` measurements.

    Args:
        names: in the order of the file.
        measure: gives the noise of a group of neighbours; None where it cannot be told.
        most_runs: with more layers than this, they begin in groups, of which the worst are halved.

    Returns:
        Name -> noise. Those of a group that was not halved share its noise evenly (in squares); what could not be
        told is left out.
    """
    size = 1 if len(names) <= most_runs else math.ceil(len(names) / (most_runs / 2))
    order, runs = count(), 0
    heap: list[tuple[float, int, Sequence[str]]] = []
    found: dict[str, float] = {}
    waiting = [names[start : start + size] for start in range(0, len(names), size)]
    while waiting or (heap and runs < most_runs):
        if not waiting:
            _, _, worst = heapq.heappop(heap)
            waiting = [worst[: len(worst) // 2], worst[len(worst) // 2 :]]
        group = waiting.pop()
        level, runs = measure(group), runs + 1
        for name in group if level is not None else ():
            found[name] = (level or 0.0) / math.sqrt(len(group))
        if len(group) > 1:
            heapq.heappush(heap, (-math.inf if level is None else -level, next(order), group))
    return found

"""What the tensors of a float TFLite file hold while real data goes through it: one batch at a time.

ai-edge-quantizer's own calibration forgets: it averages the ranges of batches. So the file is run here, and every
value counts.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from convert.errors import StageError
from convert.records import IoEntry, Quantization
from convert.targets.ranges import Range, Ranges
from convert.targets.tflite_named import read
from convert.targets.tflite_session import Shapes, invoke, to_artifact

Array = np.ndarray[Any, Any]
#: Kernels give the largest float where a mask has infinity; no integers can stand for a range like that.
_INFINITE = 1e30


class Watched:
    """A file that shows all its tensors after a run. On the built-in kernels: a delegate would hide what it fuses."""

    def __init__(self, source: Path | bytes, io: Sequence[IoEntry]) -> None:
        """Load ``source``; ``io`` says which of its tensors are which of the source's."""
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        given: dict[str, Any] = {"model_content": source} if isinstance(source, bytes) else {"model_path": str(source)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of the memory that keeping all tensors takes
            self._interpreter = Interpreter(
                **given,
                experimental_preserve_all_tensors=True,
                experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            )
        by_name = {detail["name"]: detail for detail in self._interpreter.get_input_details()}
        self._inputs = [(entry, by_name[entry.name]) for entry in io if entry.role == "input"]
        self._shapes: Shapes = ()

    def run(self, feeds: Mapping[str, Array]) -> None:
        """Run once on the source's own feeds."""
        values = [to_artifact(entry, feeds[entry.source], detail) for entry, detail in self._inputs]
        indices = [detail["index"] for _, detail in self._inputs]
        self._shapes = invoke(self._interpreter, indices, values, self._shapes)

    def details(self) -> list[dict[str, Any]]:
        """The tensors of the main graph as they are after the last run."""
        return list(self._interpreter.get_tensor_details())

    def value(self, index: int) -> Array | None:
        """One tensor of the main graph; None where the runtime has none for it."""
        try:
            return np.asarray(self._interpreter.get_tensor(index))
        except ValueError:
            return None

    def values(self, names: Iterable[str] | None = None) -> dict[str, Array]:
        """Floating tensors by name, all of them by default."""
        wanted = None if names is None else set(names)
        found = {}
        for detail in self.details():
            if detail["dtype"] is np.float32 and (wanted is None or detail["name"] in wanted):
                value = self.value(detail["index"])
                if value is not None:
                    found[detail["name"]] = value
        return found


def measure(
    source: Path | bytes, io: Sequence[IoEntry], batches: Iterable[Mapping[str, Array]], asked: Quantization, bits: int
) -> tuple[dict[str, Range], int]:
    """Measure the range of every tensor of a float file.

    Args:
        source: the file.
        io: which of its tensors are which of the source's.
        batches: feeds of the source.
        asked: says the rule.
        bits: of the activations; ranges of 16 bits lie evenly about zero.

    Returns:
        Tensor name -> range, for all tensors that were always finite (masks are not); and how many batches there were.

    Raises:
        StageError: there is no batch.
    """
    # With 65,535 steps rounding is next to nothing, so that the least squared error is that of the whole range.
    rule = "minmax" if asked.rule == "mse" and bits == 16 else asked.rule
    ranges, watched, count = Ranges(rule, asked.percentile, symmetric=bits == 16), Watched(source, io), 0
    names = _changing(source)
    for feeds in batches:
        watched.run(feeds)
        ranges.add(watched.values(names))
        count += 1
    if not count:
        raise StageError("the calibration data hold no sample, so that no range can be measured; give at least one")
    return {name: found for name, found in ranges.result().items() if max(map(abs, found)) < _INFINITE}, count


def _changing(source: Path | bytes) -> set[str]:
    """Floating tensors of the main graph that are no constants."""
    operators = [operator for operator in read(source).operators() if operator.subgraph == 0]
    tensors = [tensor for operator in operators for tensor in (*operator.inputs, *operator.outputs)]
    return {tensor.name for tensor in tensors if tensor.floating and not tensor.constant}


def first(batches: Iterable[dict[str, Array]], samples: int) -> Iterator[dict[str, Array]]:
    """Whole batches until ``samples`` samples are reached."""
    taken = 0
    for feeds in batches:
        if taken >= samples:
            return
        taken += max((value.shape[0] if value.ndim else 1 for value in feeds.values()), default=1)
        yield feeds

"""ONNX's node tests: one operator each, with inputs and expected outputs. Runs in a child process of the core."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from convert.errors import StageError
from convert.models.load import load
from convert.records import InputSpec, Kind, ModelRef
from convert.serial import write_json
from suites.case import write_golden

#: What these give is drawn at random, so no output is the expected one.
_RANDOM = ("test_bernoulli", "test_training_dropout", "test_random")


@cache
def _cases() -> dict[str, Any]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflow and division by zero, which some cases are about
        found = load_model_tests(kind="node")
    return {case.name: case for case in found if not case.name.startswith(_RANDOM)}


def items() -> list[str]:
    """The names of all cases, but for those with random results."""
    return sorted(_cases())


def prepare(item: str, folder: str, target: str, route: str) -> None:
    """Write the case as golden data.

    Raises:
        InputError, StageError: the project does not take the graph, or the case is not about tensors of numbers.
    """
    del target, route
    import onnx

    case, place = _cases()[item], Path(folder)
    ref = ModelRef(str(place / "given.onnx"), Kind.ONNX)
    onnx.save(case.model, ref.path)
    write_json(place / "ref.json", ref)
    inputs = load(ref).inputs or ()
    outputs = [value.name for value in case.model.graph.output]
    runs = [_run(inputs, outputs, *data) for data in case.data_sets]
    specs = [replace(spec, shape=runs[0][0][spec.name].shape) for spec in inputs]
    write_golden(place, "ONNX graph", Kind.ONNX, specs, runs)
    write_json(place / "tolerance.json", {"rtol": case.rtol, "atol": case.atol})


def _run(inputs: tuple[InputSpec, ...], outputs: list[str], given: Any, wanted: Any) -> tuple[dict[str, Any], Any]:
    names = [spec.name for spec in inputs]
    if any(isinstance(value, list) or value is None for value in (*given, *wanted)):
        raise StageError("an input or output is a sequence or an optional, and no tensor")
    if len(names) != len(given) or len(outputs) != len(wanted):
        raise StageError("the data do not fit the interface of the graph")
    feeds, results = [np.asarray(value) for value in given], [np.asarray(value) for value in wanted]
    strange = [value.dtype for value in (*feeds, *results) if value.dtype.kind not in "fiub"]
    if strange:
        raise StageError(f"an input or output holds {strange[0]}")
    return dict(zip(names, feeds, strict=True)), dict(zip(outputs, results, strict=True))

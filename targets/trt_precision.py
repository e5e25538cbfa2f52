"""Write a precision into the graph that TensorRT gets: its networks are strongly typed, so the graph alone decides.

float16 and int8 are checked here, with onnxruntime's optimisations off (they would put other kernels in place of what
is written), before anything is built from them: a recipe that cannot be right must not reach a GPU host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from convert.errors import StageError
from convert.golden_io import CaseData, load_case
from convert.precisions import LEAST_AGREEMENT, LEAST_SQNR_DB
from convert.records import Operators
from convert.targets.base import BuildRequest
from convert.targets.onnx_files import save_graph
from convert.targets.onnx_float16 import to_float16
from convert.targets.onnx_quant import quantized
from convert.targets.onnx_quant_measure import plain_session_of
from convert.targets.onnx_quant_plan import TENSORRT
from convert.targets.onnx_quant_read import operators_as_written
from convert.targets.onnx_stepwise import Stepwise
from convert.targets.trt_host.compare import compare

#: Of the calibration data, in a recipe.
_MOST_BATCHES = 8
#: No limit, in a form that JSON has.
_UNLIMITED = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Written:
    """A request whose graph has the precision in it, and what there is to say of it.

    Attributes:
        cases: further cases for a recipe, name -> arrays, since drawn inputs say nothing of int8.
        settings: for the manifest of the artifact.
    """

    request: BuildRequest
    notes: tuple[str, ...] = ()
    operators: Operators | None = None
    cases: Mapping[str, CaseData] | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def write_precision(request: BuildRequest) -> Written:
    """The request with the graph of its precision, written into its scratch folder.

    Raises:
        StageError: int8 without data, or the graph is further from the source than is allowed.
    """
    assert request.onnx is not None  # noqa: S101  (a route that needs onnx gets it)
    if request.precision == "float32":
        return Written(request)
    folder = request.scratch / "precision"
    folder.mkdir()
    file = folder / request.onnx.name
    if request.precision == "float16":
        half = to_float16(request, request.onnx, file)
        note = _require_near(request, file)
        return Written(replace(request, onnx=file), (*half.notes, note), settings=half.settings)
    model, notes = quantized(request, request.onnx, TENSORRT)
    save_graph(model, file)
    cases = _cases(request)
    note = _require_right(request, file, cases)
    settings = request.settings | {"limits": _limits(request, cases)}
    return Written(replace(request, onnx=file, settings=settings), (*notes, note), operators_as_written(model), cases)


def _require_near(request: BuildRequest, file: Path) -> str:
    """Compare the float16 graph with the source in every case; returns a note with the largest share of a limit.

    It is run operator by operator, so that every value between two of them is rounded to float16. Sums inside an
    operator are made in float32 here; those that may overflow stay in float32 for that reason.

    Raises:
        StageError: an output is too far away.
    """
    run = _rounding_runner(file)
    limits, worst = request.settings["limits"], 0.0
    cases = [case for case in request.golden.cases if case.name in limits]
    if not cases:
        raise StageError("the float16 graph could not be checked, since there is not one case to compare")
    for case in cases:
        data = load_case(request.golden_folder, case)
        arrays = {f"out:{name}": value for name, value in data.outputs.items()}
        arrays |= {f"truth:{name}": value for name, value in data.truths.items()}
        for one in compare(run(data.feeds), arrays, limits[case.name]):
            if one.wrong:
                raise StageError(f"the float16 graph is not right in case {case.name}: {one.wrong}; use float32")
            worst = max(worst, one.figure / one.limit if one.limit else 0.0)
    return f"the float16 graph was checked operator by operator in {len(cases)} cases: {worst:.0%} of the limit"


def _rounding_runner(file: Path) -> Any:
    """What runs a float16 graph with every value between two operators rounded."""
    import onnx

    graph = Stepwise(onnx.load(str(file)))

    def run(feeds: Any) -> dict[str, Any]:
        try:
            return graph.run(feeds)
        except Exception as error:  # onnxruntime has no class of its own for what it raises
            raise StageError(f"the float16 graph cannot be run operator by operator: {error}; use float32") from error

    return run


def _cases(request: BuildRequest) -> dict[str, CaseData]:
    """Batches of the calibration data with what the float32 graph gives for them; it passed the checks."""
    assert request.onnx is not None  # noqa: S101
    if request.calibration is None:
        return {}
    run = _runner(request.onnx)
    return {
        f"calibration{index}": CaseData(feeds, run(feeds), {})
        for index, feeds in enumerate(islice(request.calibration, _MOST_BATCHES))
    }


def _runner(file: Path) -> Any:
    session = plain_session_of(file)
    names = [value.name for value in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(names, dict(feeds)), strict=True))


def least_sqnr(request: BuildRequest) -> float:
    """The lowest SQNR in dB that passes."""
    asked = request.quantization.least_sqnr
    return LEAST_SQNR_DB if asked is None else asked


def _real(request: BuildRequest, cases: Mapping[str, CaseData]) -> Iterator[CaseData]:
    yield from cases.values()
    for case in request.golden.cases:
        if case.origin == "sample":
            yield load_case(request.golden_folder, case)


def _require_right(request: BuildRequest, file: Path, cases: Mapping[str, CaseData]) -> str:
    """Compare the graph with the source on real inputs; returns a note with the lowest figure.

    Raises:
        StageError: an output is too far away, or there was nothing to compare.
    """
    run = _runner(file)
    pairs: dict[str, list[Any]] = {spec.name: [] for spec in request.golden.outputs}
    for data in _real(request, cases):
        got = run(data.feeds)
        for name, rows in pairs.items():
            rows.append((got[name], data.outputs[name]))
    if not all(pairs.values()):
        raise StageError("the int8 graph could not be checked, since there is not one real input; give --calibration")
    figures = {name: _sqnr(rows) for name, rows in pairs.items() if rows[0][1].dtype.kind == "f"}
    least = least_sqnr(request)
    for name, figure in figures.items():
        if not figure >= least:
            raise StageError(
                f"output {name} of the int8 graph has an SQNR of {figure:.1f} dB on real inputs, and {least:g} are "
                "wanted; try another --range, more calibration data, or float16"
            )
    for name in pairs.keys() - figures.keys():
        share = float(np.mean([np.mean(mine == theirs) for mine, theirs in pairs[name]]))
        if not share >= LEAST_AGREEMENT:
            raise StageError(
                f"output {name} of the int8 graph has {share:.0%} of its integers as the source has, and "
                f"{LEAST_AGREEMENT:.0%} are wanted; try another --range, more calibration data, or float16"
            )
    worst = f"SQNR {min(figures.values()):.1f} dB" if figures else "integers agree"
    return f"the QDQ graph was checked on {len(next(iter(pairs.values())))} real batches by onnxruntime: {worst}"


def _sqnr(rows: list[Any]) -> float:
    """In dB over all rows; NaN where something is not finite, so that no comparison passes it."""
    if any(mine.shape != theirs.shape for mine, theirs in rows):
        return float("nan")
    signal = sum(float((theirs.astype(np.float64) ** 2).sum()) for _, theirs in rows)
    noise = sum(float(((mine.astype(np.float64) - theirs) ** 2).sum()) for mine, theirs in rows)
    if not (np.isfinite(signal) and np.isfinite(noise)):
        return float("nan")
    if noise == 0:
        return float("inf")
    return float(10 * np.log10(signal / noise)) if signal else float("-inf")


def _limits(request: BuildRequest, cases: Mapping[str, CaseData]) -> dict[str, dict[str, dict[str, float]]]:
    """Limits of a recipe: SQNR on real inputs, and no more than finite values of the right form on draws."""
    share = 10 ** (-least_sqnr(request) / 20)
    limits: dict[str, dict[str, dict[str, float]]] = {}
    for case in (case for case in request.golden.cases if case.origin != "edge"):
        outputs = load_case(request.golden_folder, case).outputs
        real = share if case.origin == "sample" else None
        limits[case.name] = {name: _limit(value, real) for name, value in outputs.items()}
    for name, data in cases.items():
        limits[name] = {key: _limit(value, share) for key, value in data.outputs.items()}
    return limits


def _limit(value: Any, share: float | None) -> dict[str, float]:
    if value.dtype.kind != "f":
        return {"agreement": 0.0 if share is None else LEAST_AGREEMENT}
    if share is None:
        return {"max_error": _UNLIMITED, "rms_error": _UNLIMITED}
    rms = float(np.sqrt(np.mean(value.astype(np.float64) ** 2))) if value.size else 0.0
    return {"max_error": _UNLIMITED, "rms_error": rms * share}

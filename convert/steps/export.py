"""Step 2: ONNX by every route; the first whose file passes the checks is taken, all verdicts are recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from convert.context import Context, Say
from convert.options import settle_opset
from convert.records import Artifact, ExportRecord, Golden, Kind, RouteResult, Status
from convert.steps.prove import prove
from convert.targets.onnx import FILE, io_as_exported
from convert.targets.onnx_files import onnx_files

ROUTES = ("dynamo", "torchscript")
#: How torch.export says that a branch or a loop depends on data.
_BRANCHING = ("GuardOnDataDependentSymNode", "data-dependent")


@dataclass(frozen=True)
class Graph:
    """An ONNX file that was checked against the source, and the route that made it."""

    route: str
    file: Path
    info: dict[str, Any]
    simplified: bool = False


def export_onnx(context: Context, golden: Golden, say: Say) -> tuple[ExportRecord, tuple[Graph, ...]]:
    """Export and check; returns the record and the graphs that passed, the one to use first."""
    opset = settle_opset(context.options.opset, context.options.targets)
    results: list[RouteResult] = []
    graphs: list[Graph] = []
    for route in ("as-given",) if golden.kind is Kind.ONNX else ROUTES:
        branching = next((result.reason for result in results if _depends_on_data(result)), "")
        result, graph = _try_route(context, golden, route, opset, branching, say)
        results.append(result)
        if graph is not None:
            graphs.append(graph)
    if not graphs:
        # What the source itself makes impossible comes first; the exporters' own words for it follow.
        told = sorted(results, key=lambda result: not result.reason.startswith("the source's"))
        reasons = "; ".join(f"{result.route}: {result.reason}" for result in told)
        return ExportRecord(Status.FAILED, "", opset, reasons, tuple(results)), ()
    best = _simplify(context, golden, graphs[0], say)
    notes = tuple(f"dynamic axis lost: {text}" for text in best.info["lost"])
    notes += (best.info["note"],) if best.info["note"] else ()
    record = ExportRecord(
        Status.PASSED,
        best.route,
        int(best.info["opset"]),
        "",
        tuple(results),
        {name: tuple(axes) for name, axes in best.info["axes"].items()},
        best.simplified,
        notes,
    )
    return record, (best, *graphs[1:])


def _depends_on_data(result: RouteResult) -> bool:
    return result.status is Status.FAILED and any(word in result.reason for word in _BRANCHING)


def _try_route(
    context: Context, golden: Golden, route: str, opset: int, branching: str, say: Say
) -> tuple[RouteResult, Graph | None]:
    folder = context.work / f"export-{route}"
    folder.mkdir()
    file = folder / FILE
    ended = context.run(
        f"export-{route}",
        context.core(),
        "export",
        {
            "ref": context.options.ref,
            "golden": golden,
            "route": route,
            "opset": opset,
            "exact": context.options.opset is not None,
            "branching": branching,
            "file": str(file),
        },
        lambda text: say(f"{text} ({route})"),
    )
    log = context.runner.relative_log(ended.log)
    if not ended.ok:
        reason = "; ".join(text for text in (ended.answer.reason, ended.answer.advice) if text)
        return RouteResult(route, Status.FAILED, "export", reason, ended.seconds, log), None
    return _check(context, golden, Graph(route, file, ended.value), ended.seconds, log, say)


def _check(
    context: Context, golden: Golden, graph: Graph, seconds: float, log: str, say: Say
) -> tuple[RouteResult, Graph | None]:
    proof = prove(
        context,
        f"export-{graph.route}",
        _artifact(graph, golden),
        graph.file.parent,
        golden,
        lambda text: say(f"{text} ({graph.route})"),
    )
    worst = proof.verdict.worst.figure if proof.verdict.worst else None
    status = Status.PASSED if proof.verdict.passed else Status.FAILED
    lost = [f"the exporter fixed a dynamic size: {text}" for text in graph.info["lost"]]
    reason = "" if proof.verdict.passed else "; ".join([*lost, proof.verdict.reason])
    result = RouteResult(graph.route, status, "check", reason, seconds, log, worst)
    return result, graph if proof.verdict.passed else None


def _artifact(graph: Graph, golden: Golden) -> Artifact:
    return Artifact("onnx", "float32", graph.route, onnx_files(graph.file), io_as_exported(golden))


def _simplify(context: Context, golden: Golden, graph: Graph, say: Say) -> Graph:
    """The graph simplified, if the simplified one passes the same checks; else the graph as it is."""
    if len(onnx_files(graph.file)) > 1:
        return graph  # onnxslim would need several times the weights in memory
    folder = context.work / f"export-{graph.route}-slim"
    folder.mkdir()
    slim = replace(graph, file=folder / FILE, simplified=True)
    ended = context.run("simplify", context.core(), "simplify", {"file": str(graph.file), "to": str(slim.file)}, say)
    if not ended.ok or slim.file.stat().st_size > 1.2 * graph.file.stat().st_size + 4096:
        return graph
    result, checked = _check(context, golden, slim, ended.seconds, "", say)
    return checked if checked is not None and result.status is Status.PASSED else graph

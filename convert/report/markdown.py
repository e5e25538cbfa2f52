"""The report as Markdown, for people and for pull requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from convert.records import Mixed, Outcome, Report, RouteResult
from convert.report.cells import COLUMNS, remarks, row, target_text
from convert.specs import format_input


def render(report: Report) -> str:
    """The whole document, ending in a newline."""
    parts = [_head(report), _summary(report), _export(report)]
    parts += [_artifact(outcome) for outcome in report.artifacts]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(report: Report) -> str:
    golden = report.golden
    lines = [
        f"# {golden.module}",
        "",
        f"`{report.model['path']}` ({report.model['kind']}), "
        f"{golden.parameters:,} parameters, made by convert {report.convert_version} on {report.created}.",
        "",
    ]
    lines += [f"- input `{format_input(spec)}`" for spec in golden.inputs]
    lines += [f"- output `{spec.name}`: {spec.dtype}[{', '.join(map(str, spec.shape))}]" for spec in golden.outputs]
    lines += [f"- dimension `{dim.name}`: {dim.min} to {dim.max}, usually {dim.opt}" for dim in golden.dims]
    lines += [f"- {note}" for note in golden.notes]
    return "\n".join(lines)


def _summary(report: Report) -> str:
    return "## Result\n\n" + _table(COLUMNS, [row(outcome) for outcome in report.artifacts])


def _export(report: Report) -> str:
    export = report.export
    head = f"## ONNX\n\n{export.status}" + (f", opset {export.opset}, route {export.route}" if export.route else "")
    notes = "\n".join(f"- {note}" for note in export.notes)
    parts = (f"{head}{': ' + export.reason if export.reason else ''}", _routes(export.routes), notes)
    return "\n\n".join(part for part in parts if part)


def _artifact(outcome: Outcome) -> str:
    lines = [f"## {target_text(outcome)} {outcome.precision}: {outcome.status}", ""]
    lines += [f"- {text}" for text in remarks(outcome)]
    lines += [f"- `{file.path}` {file.size} bytes, sha256 `{file.sha256}`" for file in outcome.files]
    tables = [_routes(outcome.routes), _interface(outcome), _checks(outcome), _mixed(outcome.mixed)]
    return "\n\n".join(["\n".join(lines), *(table for table in tables if table)])


def _routes(routes: Sequence[RouteResult]) -> str:
    rows = [(r.route, str(r.status), r.stage, r.reason, f"{r.seconds:.1f}") for r in routes]
    return _table(("route", "status", "stage", "reason", "seconds"), rows) if rows else ""


def _interface(outcome: Outcome) -> str:
    rows = [(e.role, e.source, e.name, e.dtype, str(list(e.shape)), e.layout) for e in outcome.io]
    return _table(("role", "source", "name", "dtype", "shape", "layout"), rows) if rows else ""


def _checks(outcome: Outcome) -> str:
    rows = [
        (
            c.case,
            c.output,
            f"{c.figure:.2e}",
            f"{c.limit:.2e}",
            "" if c.floors is None else f"{c.floors:.1f}",
            "passed" if c.passed else f"failed: {c.detail}",
            c.rule,
        )
        for c in outcome.checks
    ]
    return _table(("case", "output", "error", "limit", "noise floors", "verdict", "rule"), rows) if rows else ""


def _mixed(mixed: Mixed | None) -> str:
    if mixed is None:
        return ""
    curve = _table(
        ("layers in float", "lowest SQNR dB"), [(str(count), f"{level:.1f}") for count, level in mixed.curve]
    )
    rows = [
        (layer.name, layer.operator, f"{layer.noise:.3%}", "float" if layer.name in mixed.kept else "integer")
        for layer in mixed.layers
    ]
    return curve + "\n\n" + _table(("layer", "operator", "noise it adds", "computes in"), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_line(head), _line(["---"] * len(head)), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

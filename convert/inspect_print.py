"""An inspection for people, as tables, and for programs, as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from convert.console import stdout
from convert.inspect_records import Inspection, Operator, RouteAnswer, TargetView
from convert.records import InputSpec, OutputSpec
from convert.serial import to_plain

#: Operators beyond these are only counted together; the JSON has them all.
_MOST = 20
_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def write_json(found: Inspection) -> None:
    """Write ``found`` to standard output."""
    sys.stdout.write(json.dumps(to_plain(found), indent=2, allow_nan=False) + "\n")


def print_inspection(found: Inspection, console: Console | None = None) -> None:
    """Print ``found`` to ``console`` [default: standard output]."""
    console = console or stdout()
    _print(console, _facts(found))
    if found.inputs or found.outputs:
        _print(console, _interface(found), "inputs and outputs")
    if found.operators:
        _print(console, _operators(found), f"operators, from {found.operators_from}")
    for view in found.targets:
        _print(console, _target(view), f"target {view.target}")
    for title, lines in (("not found out", found.missing), ("notes", found.notes)):
        if lines:
            console.print(title, style="bold")
            for line in lines:
                console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)


def _print(console: Console, table: Table, title: str = "") -> None:
    if title:
        console.print(title, style="bold", highlight=False, markup=False, soft_wrap=True)
    console.print(table)
    console.print()


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=bool(columns))
    for column in columns or ("", ""):
        table.add_column(column, overflow="fold", justify="right" if column == "count" else "left")
    return table


def _add(table: Table, *cells: str) -> None:
    from rich.text import Text  # a name of the user's may look like markup

    table.add_row(*(Text(cell) for cell in cells))


def _facts(found: Inspection) -> Table:
    table = _table()
    rows = {
        "model": found.path,
        "kind": f"{found.kind}, {found.module}",
        "size": f"{found.file_bytes:,} bytes" if found.file_bytes else "",
        "parameters": f"{found.parameters:,} ({found.parameter_bytes:,} bytes)",
        "buffers": f"{found.buffers:,} ({found.buffer_bytes:,} bytes)" if found.buffers else "",
        "forward takes": ", ".join(found.arguments),
        "dynamic": ", ".join(f"{dim.name}={dim.min}..{dim.opt}..{dim.max}" for dim in found.dims),
        "layers": _counts(found.layers),
        "FLOPs": _flops(found),
        "randomness": _randomness(found),
        "state": _state(found),
        "control flow": _control_flow(found),
    }
    for name, value in rows.items():
        if value:
            _add(table, name, value)
    return table


def _counts(counts: dict[str, int]) -> str:
    shown = [f"{count} {name}" for name, count in list(counts.items())[:_MOST]]
    return ", ".join(shown) + (f", {len(counts) - _MOST} more kinds" if len(counts) > _MOST else "")


def _flops(found: Inspection) -> str:
    if found.flops is None:
        return ""
    at = ", ".join(f"{name}={size}" for name, size in found.flops.dims.items())
    most = ", ".join(f"{name} {_short(count)}" for name, count in list(found.flops.by_operator.items())[:5])
    return f"{_short(found.flops.total)}{f' at {at}' if at else ''}{f' ({most})' if most else ''}"


def _short(count: int) -> str:
    return next((f"{count / step:.3g} {unit}" for step, unit in _STEPS if count >= step), str(count))


def _randomness(found: Inspection) -> str:
    random = found.randomness
    named = _counts(random.operators)
    if random.repeatable is None:
        return f"draws random numbers: {named}" if named else ""
    if not random.repeatable:
        return f"not convertible: {random.reason}"
    return f"draws random numbers ({named}), which move no output" if named else "none; two calls give the same"


def _state(found: Inspection) -> str:
    if found.state:
        return f"forward updates {', '.join(found.state)}"
    return "" if found.randomness.repeatable is None else "none is updated in forward"


def _control_flow(found: Inspection) -> str:
    flow = found.control_flow
    if flow is None:
        return ""
    where = f" at {flow.file}:{flow.line}: {flow.code}" if flow.file else ""
    return f"depends on the values of the inputs{where} ({flow.error}); write it with torch.where or torch.cond"


def _interface(found: Inspection) -> Table:
    table = _table("tensor", "dtype", "shape")
    for role, specs in (("in", found.inputs), ("out", found.outputs)):
        for spec in specs:
            _add(table, f"{role} {spec.name}", spec.dtype, _shape(spec))
    return table


def _shape(spec: InputSpec | OutputSpec) -> str:
    sizes = ", ".join("?" if size == -1 else str(size) for size in spec.shape)
    bounds = f" {{{spec.low}..{spec.high}}}" if isinstance(spec, InputSpec) and spec.low is not None else ""
    return f"[{sizes}]{bounds}"


def _operators(found: Inspection) -> Table:
    table = _table("operator", "count", "")
    for operator in _shown(found.operators):
        _add(table, operator.name, str(operator.count), "custom operator" if operator.custom else "")
    left = len(found.operators) - len(_shown(found.operators))
    if left:
        _add(table, f"{left} more", str(sum(o.count for o in found.operators if o not in _shown(found.operators))), "")
    return table


def _shown(operators: Iterable[Operator]) -> list[Operator]:
    every = list(operators)
    return every[:_MOST] + [operator for operator in every[_MOST:] if operator.custom]


def _target(view: TargetView) -> Table:
    table = _table("route", "operators")
    for answer in view.routes:
        _add(table, answer.route, _answer(answer))
    for problem in view.problems:
        count = f" ({problem.count})" if problem.count else ""
        _add(table, "", f"{problem.operator}{count}: {problem.reason}")
    if any(answer.takes_all is False for answer in view.routes):
        _add(table, "", f"knows every operator: {', '.join(view.works_by) or 'no route that was asked'}")
    return table


def _answer(answer: RouteAnswer) -> str:
    if answer.takes_all:
        return f"knows all{f' ({answer.reason})' if answer.reason else ''}"
    if answer.takes_all is None:
        return f"not asked: {answer.reason}"
    return f"lacks {', '.join(answer.lacking)}" if answer.lacking else f"cannot: {answer.reason}"

"""docs/coverage.md from docs/coverage.json; nothing is measured here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from coverage_cells import Cell, Row
from coverage_file import Coverage, Made, SuiteTally, Tally, Zoo

_HEAD = """# Coverage

Made by `make coverage-table` and `make public-suites` from [coverage.json](coverage.json); do not edit it by hand. The
tests (`tests/test_conformance.py`) make every cell of the first table anew and fail where one got worse: where it
passed and does not pass now, or where its worst error is more than 4 times what stands here and above 5 noise floors.
"""
_ZOO = """## Reference models

Small models of the project's own (`models/zoo.py`), with dynamic sizes as given there. A cell says by which route the
artifact was made, its worst error over all cases and outputs in noise floors of the source
([checks.md](checks.md)), and how much of the allowed error that is. **fixed** means: failed with dynamic sizes,
passed with every size fixed. A failed artifact is not handed out.
"""
_SUITES = """## Public suites

Suites that come with the packages, each item through this project's own export, build and session.

- **passed**: ran and gave the expected numbers;
- **wrong**: ran and gave others, which is what the checks of a conversion are there to catch;
- **refused**: an exception with a message, in the stage named below;
- **crashed**: the process died, or the item took longer than its limit.

`onnx-node`: ONNX's own node tests, brought to the newest opset that the target reads, compared by the suite's own
tolerances. `torch-modules`: `torch.testing._internal.common_modules.module_db`, from the live module; `export-db`:
`torch._export.db`; both compared by the rules of [checks.md](checks.md), on the suite's inputs.
"""
_MOST_NAMED = 25
#: Refusals are safe and many; coverage.json names them all.
_NAMED = ("wrong", "crashed")


def render(coverage: Coverage) -> str:
    """The whole page."""
    parts = [_HEAD]
    if coverage.zoo is not None:
        parts += [_ZOO, _made(coverage.zoo.made), _zoo_table(coverage.zoo), _gaps(coverage.zoo)]
    if coverage.suites:
        parts += [_SUITES, _suite_table(coverage.suites), *_suite_details(coverage.suites)]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _made(made: Made) -> str:
    tools = "; ".join(
        f"{chain}: {', '.join(f'{name} {version}' for name, version in versions.items())}"
        for chain, versions in made.toolchains.items()
    )
    host = made.host
    return f"{made.date}, convert {made.convert}, {host['cpu']} ({host['machine']}), {tools}."


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _zoo_table(zoo: Zoo) -> str:
    targets = tuple(next(iter(zoo.models.values())).targets)
    rows = [[f"`{name}`", *(_cell(row, target) for target in targets)] for name, row in zoo.models.items()]
    totals = ["**passed**", *(_total(zoo.models, target) for target in targets)]
    return table(["model", *targets], [*rows, totals])


def _cell(row: Row, target: str) -> str:
    cell = row.targets[target]
    if cell.passed:
        return _figures(cell)
    closed = row.fixed.get(target)
    return f"fixed: {_figures(closed)}" if closed is not None and closed.passed else "**failed**"


def _figures(cell: Cell) -> str:
    floors = "equal" if cell.floors is None else f"{cell.floors:g} floors"
    share = "" if cell.share is None else f", {cell.share:.0%}"
    return f"{cell.route}: {floors}{share}"


def _total(models: Mapping[str, Row], target: str) -> str:
    dynamic = sum(row.targets[target].passed for row in models.values())
    fixed = sum(target in row.gaps and row.fixed.get(target, Cell("failed")).passed for row in models.values())
    return f"**{dynamic} of {len(models)}**" + (f", {fixed} more at fixed sizes" if fixed else "")


def _gaps(zoo: Zoo) -> str:
    rows = [
        [target, f"`{name}`", "passes" if row.fixed[target].passed else _escape(row.fixed[target].reason), why]
        for name, row in zoo.models.items()
        for target in row.gaps
        for why in [_escape(row.targets[target].reason)]
    ]
    rows += [
        [f"exporter {route}", f"`{name}`", "", _escape(cell.reason)]
        for name, row in zoo.models.items()
        for route, cell in row.exporters.items()
        if not cell.passed
    ]
    return "What failed, in the words of the report (why, in other words: [targets.md](targets.md)):\n\n" + table(
        ["where", "model", "at fixed sizes", "with dynamic sizes"], rows
    )


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("_", "\\_").replace("*", "\\*")


def _suite_table(suites: Mapping[str, SuiteTally]) -> str:
    rows = [
        [
            suite,
            target,
            f"{tally.count} of {tally.size}" + ("" if tally.seed is None else f" (seed {tally.seed})"),
            *(_part(number, tally) for number in (tally.passed, tally.wrong, tally.refused, tally.crashed)),
            one.made.date,
        ]
        for suite, one in suites.items()
        for target, tally in one.targets.items()
    ]
    return table(["suite", "target", "items", "passed", "wrong", "refused", "crashed", "date"], rows)


def _part(number: int, tally: Tally) -> str:
    return f"{number} ({number / tally.count:.0%})" if tally.count else "–"


def _suite_details(suites: Mapping[str, SuiteTally]) -> list[str]:
    parts = []
    for suite, one in suites.items():
        parts.append(f"### {suite}\n\n{_made(one.made)}\n")
        parts += [_tally_details(target, tally) for target, tally in one.targets.items()]
    return parts


def _tally_details(target: str, tally: Tally) -> str:
    lines = []
    if tally.stages:
        stages = ", ".join(f"{stage} {count}" for stage, count in sorted(tally.stages.items(), key=lambda one: -one[1]))
        lines.append(f"- **{target}** refused by stage: {stages}")
    for kind, items in ((kind, tally.named[kind]) for kind in _NAMED if kind in tally.named):
        shown = [f"`{name}` ({_escape(what)})" for name, what in list(items.items())[:_MOST_NAMED]]
        more = f" and {len(items) - _MOST_NAMED} more" if len(items) > _MOST_NAMED else ""
        lines.append(f"- **{target}** {kind}: {'; '.join(shown)}{more}")
    return "\n".join(lines)

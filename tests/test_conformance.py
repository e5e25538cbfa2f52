"""Every target on every reference model, on the real toolkits, compared with what docs/coverage.json says of it.

A cell that passed there and does not pass now, or whose error grew, is a failure. One that got better is not: it is
skipped with the advice to make the table anew. Cells that fail there are tried at fixed sizes; that they still fail
closed with dynamic ones takes every route of the target and is a slow test.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from helpers import scripts
from helpers.background import Background
from helpers.command import ROOT

from convert.models.zoo import ZOO
from convert.targets import load_target
from convert.toolchains import find

cells: Any = scripts.load("coverage_cells")
coverage: Any = scripts.load("coverage_file")

CPU_TARGETS: tuple[str, ...] = cells.CPU_TARGETS
COMMITTED = coverage.load()
MODELS: dict[str, Any] = COMMITTED.zoo.models if COMMITTED.zoo else {}
PASSING = [(target, model) for model, row in MODELS.items() for target in CPU_TARGETS if target not in row.gaps]
GAPS = [(target, model) for model, row in MODELS.items() for target in row.gaps]
ANEW = "run make coverage-table and commit docs/coverage.*"


def targets_of(model: str, run: str) -> tuple[str, ...]:
    """The targets of one of the three runs of a model: ``passing``, ``gaps`` and ``fixed`` (gaps at fixed sizes)."""
    gaps = MODELS[model].gaps
    return gaps if run != "passing" else tuple(name for name in CPU_TARGETS if name not in gaps)


def background_job(model: str, run: str, **rest: str) -> tuple[Any, Callable[[], Any]]:
    """The conversion that a test with these parameters looks at."""
    del rest
    return (model, run), lambda: cells.report_of(model, targets_of(model, run), run == "fixed")


def report_of(background: Background, model: str, run: str) -> dict[str, Any]:
    """Wait for a conversion."""
    return dict(background.result((model, run)))


def cell_of(background: Background, model: str, run: str, target: str) -> Any:
    """What became of ``target`` in a conversion."""
    return cells.row_of(report_of(background, model, run)).targets[target]


def artifact_of(report: dict[str, Any], target: str) -> dict[str, Any]:
    return next(dict(one) for one in report["artifacts"] if one["target"] == target)


@pytest.mark.toolkit
@pytest.mark.parametrize(
    "toolchain", sorted({load_target(name).runtime_toolchain for name in CPU_TARGETS} | {"onnx2tf"})
)
def test_no_toolchain_vanishes_silently(toolchain: str) -> None:
    assert find(toolchain) is not None, f"{toolchain} is missing, so its targets would go untested: make toolchains"


def test_the_table_has_every_cell() -> None:
    assert set(MODELS) == set(ZOO), ANEW
    for row in MODELS.values():
        assert set(row.targets) == set(CPU_TARGETS), ANEW
        assert set(row.exporters) == set(cells.EXPORTERS), ANEW
        assert set(row.fixed) == set(row.gaps), ANEW


def test_the_page_is_the_one_that_the_figures_give() -> None:
    page = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    assert page == scripts.load("coverage_page").render(COMMITTED), "docs/coverage.md was edited by hand"


def test_every_gap_has_its_reason_in_the_documentation() -> None:
    text = (
        (ROOT / "docs" / "targets.md").read_text(encoding="utf-8").partition("## Known gaps")[2].partition("\n## ")[0]
    )
    rows = re.findall(r"^\| (\w+) \|.*?\((`.*?`)\)", text, re.MULTILINE)
    told = sorted((target, model) for target, models in rows for model in re.findall(r"`(\w+)`", models))
    assert told == sorted(GAPS)


@pytest.mark.toolkit
@pytest.mark.parametrize("run", ["passing"])
@pytest.mark.parametrize(("target", "model"), PASSING)
def test_target_on_model(target: str, model: str, run: str, background: Background) -> None:
    report = report_of(background, model, run)
    worse = cells.regression(MODELS[model].targets[target], cell_of(background, model, run, target))
    assert not worse, f"{target} on {model} got worse: {worse}"
    checked = {(check["case"], check["output"]) for check in artifact_of(report, target)["checks"]}
    golden = report["golden"]
    assert checked == {(case["name"], output["name"]) for case in golden["cases"] for output in golden["outputs"]}


@pytest.mark.toolkit
@pytest.mark.parametrize("run", ["passing"])
@pytest.mark.parametrize("route", cells.EXPORTERS)
@pytest.mark.parametrize("model", MODELS)
def test_exporter_on_model(model: str, route: str, run: str, background: Background) -> None:
    now = cells.row_of(report_of(background, model, run)).exporters[route]
    before = MODELS[model].exporters[route]
    worse = cells.regression(before, now)
    assert not worse, f"exporter {route} on {model} got worse: {worse}"
    if now.passed and not before.passed:
        pytest.skip(f"exporter {route} on {model} passes, which docs/coverage.json does not say yet: {ANEW}")


@pytest.mark.toolkit
@pytest.mark.parametrize("run", ["fixed"])
@pytest.mark.parametrize(("target", "model"), GAPS)
def test_gap_closes_at_fixed_sizes(target: str, model: str, run: str, background: Background) -> None:
    now = cell_of(background, model, run, target)
    worse = cells.regression(MODELS[model].fixed[target], now)
    assert not worse, f"{target} on {model} at fixed sizes got worse: {worse}"
    assert now.passed, f"no size at all works for {target} on {model}: {now.reason}"


@pytest.mark.slow
@pytest.mark.toolkit
@pytest.mark.parametrize("run", ["gaps"])
@pytest.mark.parametrize(("target", "model"), GAPS)
def test_gap_fails_closed(target: str, model: str, run: str, background: Background) -> None:
    outcome = artifact_of(report_of(background, model, run), target)
    now, before = cell_of(background, model, run, target), MODELS[model].targets[target]
    if now.passed:
        pytest.skip(f"{target} on {model} passes, which docs/coverage.json does not say yet: {ANEW}")
    assert (outcome["status"], outcome["files"]) == ("failed", [])
    assert outcome["reason"]
    assert now.lost == before.lost, f"{target} on {model} fails in other places than docs/coverage.json says: {ANEW}"


def cell(status: str = "passed", floors: float | None = 1.0, **more: Any) -> Any:
    return cells.Cell(status, "onnx" if status == "passed" else "", floors, 0.1, **more)


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (cell(), cell("failed", None, reason="it broke"), "says that it passes, and now it failed: it broke"),
        (cell(floors=1.5), cell(floors=6.1), "error is 6.1 noise floors by onnx, and docs/coverage.json says 1.5 by"),
        (cell(floors=1.5), cell(floors=6.0), ""),  # four times and no more
        (cell(floors=1.0), cell(floors=5.0), ""),  # five floors are nothing to speak of
        (cell(floors=None), cell(floors=50.0), ""),
        (cell(floors=50.0), cell(floors=None), ""),
        (cell("failed", None), cell("failed", None), ""),
        (cell("failed", None), cell(floors=9.0), ""),
        (None, cell("failed", None), ""),
    ],
)  # fmt: skip
def test_what_counts_as_worse(before: Any, now: Any, told: str) -> None:
    found = cells.regression(before, now)
    assert told in found if told else found == ""


def test_reasons_tell_no_places() -> None:
    text = "\x1b[96merror\x1b[0m in /home/a b.py: /home/me/net.py:5,\n  ./tflite/x.h, 1/2, N/A " + "x" * 400
    short = cells.shorten(text)
    assert short.startswith("error in a b.py: net.py:5, ./tflite/x.h, 1/2, N/A xxx")
    assert (len(short), short[-1]) == (300, "…")


def test_the_table_comes_back_from_its_file(tmp_path: Any) -> None:
    coverage.write_json(tmp_path / "coverage.json", COMMITTED)
    assert coverage.load(tmp_path / "coverage.json") == COMMITTED
    assert coverage.load(tmp_path / "none.json") == coverage.Coverage()

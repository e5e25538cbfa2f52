"""Run one reference model for every target on this host, and say of each target what became of it.

``coverage_table.py`` writes these cells into docs/coverage.json; ``tests/test_conformance.py`` makes them anew and
compares them with that file by :func:`regression`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from convert.models.zoo import ZOO, Reference
from convert.specs import format_input, parse_dim, parse_input, shape_at
from convert.targets import TARGETS, load_target

#: Targets that any host can build and run; the others depend on a device and are no matter of this table.
CPU_TARGETS = tuple(name for name in TARGETS if not load_target(name).device)
EXPORTERS = ("dynamo", "torchscript")
#: As this program was started: tests change their own environment while conversions run beside them.
_ENVIRONMENT = dict(os.environ)
#: One for all, so that the graphs are the same whichever targets a run is for.
_OPSET = min(load_target(name).max_opset for name in CPU_TARGETS)
#: An error that grew by less than this factor, or is below so many noise floors, is another machine's rounding.
WORSE_FACTOR, LEAST_FLOORS = 4.0, 5.0
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_FOLDERS = re.compile(r"(?<![\w.])/(?:[^\s/:'\"]+/)+")


@dataclass(frozen=True)
class Cell:
    """One model on one target, or by one exporter.

    Attributes:
        status: as in the report: ``passed`` or ``failed``.
        route: the route that was taken; empty without one.
        floors: worst error over all checks as a multiple of the source's own noise floor; None where none has one.
        share: worst error over all checks as a share of its limit.
        reason: why it failed.
        lost: route -> stage at which it lost, for the routes that were tried in vain.
    """

    status: str
    route: str = ""
    floors: float | None = None
    share: float | None = None
    reason: str = ""
    lost: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether the artifact was proven."""
        return self.status == "passed"


@dataclass(frozen=True)
class Row:
    """One model: its exporters, its targets and, where one of those failed, the same with fixed sizes."""

    exporters: dict[str, Cell]
    targets: dict[str, Cell]
    fixed: dict[str, Cell] = field(default_factory=dict)

    @property
    def gaps(self) -> tuple[str, ...]:
        """The targets that did not pass with the model's dynamic sizes."""
        return tuple(name for name, cell in self.targets.items() if not cell.passed)


def report_of(model: str, targets: Sequence[str] = CPU_TARGETS, fixed: bool = False) -> dict[str, Any]:
    """Convert a reference model in a process of its own and give its report.

    Args:
        model: a key of the zoo.
        targets: for which.
        fixed: at the optimum of every dynamic size instead of with dynamic sizes.

    Raises:
        RuntimeError: the run left no report.
    """
    reference = ZOO[model]
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "convert", reference.factory, "--target", ",".join(targets)]
        command += ["--opset", str(_OPSET), "--bench-seconds", "0", "--quiet", "--out", f"{folder}/out"]
        command += _fixed_inputs(reference) if fixed else _dynamic_inputs(reference)
        # Several of these run side by side, each on one core.
        variables = _ENVIRONMENT | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, cwd=folder, check=False)
        report = Path(folder, "out", "report.json")
        if not report.is_file():
            raise RuntimeError(f"converting {model} left no report: {done.stderr[-2000:]}")
        return dict(json.loads(report.read_text(encoding="utf-8")))


def _dynamic_inputs(reference: Reference) -> list[str]:
    inputs = [word for text in reference.inputs for word in ("--input", text)]
    return inputs + [word for text in reference.dims for word in ("--dim", text)]


def _fixed_inputs(reference: Reference) -> list[str]:
    opt = {dim.name: dim.opt for dim in map(parse_dim, reference.dims)}
    specs = [parse_input(text) for text in reference.inputs]
    return [word for spec in specs for word in ("--input", format_input(replace(spec, shape=shape_at(spec, opt))))]


def row_of(report: Mapping[str, Any], fixed: Mapping[str, Any] | None = None) -> Row:
    """The row of a model from its report and, where there is one, from that of the run with fixed sizes."""
    return Row(
        {one["route"]: Cell(one["status"], reason=shorten(one["reason"])) for one in report["export"]["routes"]},
        {one["target"]: _cell_of(one) for one in report["artifacts"]},
        {} if fixed is None else {one["target"]: _cell_of(one) for one in fixed["artifacts"]},
    )


def _cell_of(artifact: Mapping[str, Any]) -> Cell:
    lost = {route["route"]: route["stage"] for route in artifact["routes"] if route["status"] != "passed"}
    if artifact["status"] != "passed":
        return Cell(artifact["status"], reason=shorten(artifact["reason"]), lost=lost)
    floors = [check["floors"] for check in artifact["checks"] if check["floors"] is not None]
    shares = [check["figure"] / check["limit"] for check in artifact["checks"] if check["limit"] > 0]
    return Cell("passed", artifact["route"], _worst(floors), _worst(shares), lost=lost)


def _worst(values: Sequence[float]) -> float | None:
    return float(f"{max(values):.3g}") if values else None


def shorten(reason: str, length: int = 300) -> str:
    """A reason without colours and the folders of this machine, at most ``length`` characters."""
    text = _FOLDERS.sub("", " ".join(_COLOURS.sub("", reason).split()))
    return text if len(text) <= length else text[: length - 1] + "…"


def regression(committed: Cell | None, now: Cell) -> str:
    """Why ``now`` is worse than ``committed``; empty where it is not, or where there is nothing to compare with."""
    if committed is None or not committed.passed:
        return ""
    if not now.passed:
        return f"docs/coverage.json says that it passes, and now it {now.status}: {now.reason}"
    before, after = committed.floors, now.floors
    if before is None or after is None or after <= LEAST_FLOORS or after <= WORSE_FACTOR * before:
        return ""
    return (
        f"the worst error is {after:g} noise floors by {now.route}, and docs/coverage.json says {before:g} "
        f"by {committed.route}"
    )

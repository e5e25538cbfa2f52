"""What the parent process does to rank layers: the source, the float32 artifact, and one sensitivity run."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from convert.console import stdout
from convert.context import Context
from convert.errors import ConvertError, InputError, StageError
from convert.options import Options
from convert.pipeline import make_golden
from convert.records import Layer, Status
from convert.scratch import scratch_context
from convert.serial import to_plain
from convert.steps.build import build_target
from convert.steps.export import export_onnx
from convert.steps.job import Job
from convert.steps.mixed import short_name
from convert.steps.sensitivity import rank_layers


@dataclass(frozen=True)
class Ranking:
    """The layers of one target at one precision, worst first."""

    target: str
    precision: str
    layers: tuple[Layer, ...]


def look_for_layers(options: Options, quiet: bool) -> Ranking:
    """Rank the layers of the one target and precision in ``options``.

    Raises:
        InputError: the model or an option cannot be used.
        ConvertError: the float32 artifact was not proven, or the layers cannot be ranked.
    """
    with scratch_context(options, quiet, "sensitivity") as (context, say):
        return _rank(context, say)


def _rank(context: Context, say: Callable[[str], None]) -> Ranking:
    ((target, precision),) = context.options.work
    if not precision.startswith("int"):
        raise InputError(f"--precision {precision} puts no layer into integers, so there is nothing to rank; take int8")
    golden = make_golden(context, say)
    export, graphs = export_onnx(context, golden, say)
    base = build_target(Job(context, golden, graphs, export.reason, target, "float32", say), None)
    if base.outcome.status is not Status.PASSED:
        raise ConvertError(f"{target.name} float32, which {precision} is made from, failed: {base.outcome.reason}")
    try:
        layers = rank_layers(Job(context, golden, graphs, export.reason, target, precision, say), base)
    except StageError as error:
        raise ConvertError(f"the layers could not be ranked: {error.reason}") from error
    return Ranking(target.name, precision, layers)


def write_layers(found: Ranking) -> None:
    """Write ``found`` to standard output as one JSON document."""
    sys.stdout.write(json.dumps(to_plain(found), indent=2, allow_nan=False) + "\n")


def print_layers(found: Ranking, console: Console | None = None) -> None:
    """Print ``found`` to ``console`` [default: standard output]."""
    from rich.text import Text  # a name of the user's may look like markup

    console = console or stdout()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("#", "noise", "SQNR dB"):
        table.add_column(title, justify="right")
    table.add_column("operator")
    table.add_column("layer", overflow="fold")
    for place, layer in enumerate(found.layers, 1):
        level = f"{-20 * math.log10(layer.noise):.1f}" if layer.noise > 0 else "–"
        table.add_row(str(place), f"{layer.noise:.3%}", level, Text(layer.operator), Text(short_name(layer.name)))
    console.print(f"{found.target} {found.precision}: the noise that each layer adds alone", style="bold")
    console.print(table)

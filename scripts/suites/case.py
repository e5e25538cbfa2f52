"""Golden data from inputs and outputs that are given, in the project's own form. Runs in a child process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from convert.golden_io import CaseData, save_case
from convert.records import Case, Floor, Golden, InputSpec, Kind, OutputSpec
from convert.serial import write_json
from convert.validators.floor import measure

Arrays = Mapping[str, Any]


def write_golden(
    place: Path,
    module: str,
    kind: Kind,
    inputs: Sequence[InputSpec],
    runs: Sequence[tuple[Arrays, Arrays]],
    truths: Arrays | None = None,
) -> Golden:
    """Write ``golden.json`` and ``golden/`` below ``place``.

    Args:
        place: folder of the item.
        module: what the source is called.
        kind: of the source.
        inputs: its inputs, all of fixed sizes.
        runs: feeds and outputs of every case; the first is the one that builds may look at.
        truths: the outputs of the first case in float64, where there are any.
    """
    (place / "golden").mkdir()
    cases = []
    for index, (feeds, outputs) in enumerate(runs):
        name = f"opt-draw{index}"
        exact = dict(truths or {}) if index == 0 else {}
        save_case(place / "golden" / f"{name}.npz", CaseData(dict(feeds), dict(outputs), exact))
        cases.append(Case(name, "draw", {}, index, f"{name}.npz", _floors(outputs, exact)))
    found = runs[0][1]
    golden = Golden(
        kind,
        module,
        0,
        0,
        tuple(inputs),
        (),
        tuple(OutputSpec(name, str(value.dtype), value.shape) for name, value in found.items()),
        tuple(cases),
        "float64" if truths else "none",
    )
    write_json(place / "golden.json", golden)
    return golden


def _floors(outputs: Arrays, truths: Arrays) -> dict[str, Floor]:
    return {
        name: measure(value, truths.get(name), None)
        for name, value in outputs.items()
        if np.issubdtype(value.dtype, np.floating)
    }

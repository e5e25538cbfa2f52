"""The limits that travel in a recipe are those that artifacts are held to here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from convert.golden_io import CaseData, save_case
from convert.limits import all_limits
from convert.records import Case, Floor, Golden, Kind, OutputSpec


@pytest.mark.parametrize(("precision", "share"), [("float32", 5 * 2.0**-14), ("float16", 15 * 2.0**-9)])
def test_an_edge_has_five_times_the_limit_of_a_sample(tmp_path: Path, precision: str, share: float) -> None:
    values = np.linspace(-1, 1, 64, dtype=np.float32)
    save_case(tmp_path / "c.npz", CaseData({}, {"y": values, "n": np.arange(3)}, {}))
    floors = {"y": Floor(1.0, 2.0**-15, 2.0**-15, 2.0**-9, 2.0**-9)}
    cases = tuple(Case(origin, origin, {}, None, "c.npz", floors) for origin in ("sample", "edge"))
    outputs = (OutputSpec("y", "float32", (64,)), OutputSpec("n", "int64", (3,)))
    golden = Golden(Kind.EXPORTED, "m", 0, 0, (), (), outputs, cases, "float64")
    limits = all_limits(golden, tmp_path, precision, 2.0)
    assert limits["edge"]["y"]["max_error"] == pytest.approx(share)
    for figure in ("max_error", "rms_error"):
        assert limits["edge"]["y"][figure] == pytest.approx(5 * limits["sample"]["y"][figure])
    assert limits["edge"]["n"] == {"max_error": 0.0, "rms_error": 0.0}

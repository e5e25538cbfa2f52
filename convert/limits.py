"""The limits of every output of every case, for those who check elsewhere (a recipe on a GPU host)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from convert.cases import skipped_cases
from convert.golden_io import load_case
from convert.records import Golden
from convert.validators.numbers import rms_of
from convert.validators.tolerance import Typical, limit_for, typical


def usual_floors(golden: Golden) -> dict[str, Typical]:
    """Output name -> summary of its noise floor over all cases."""
    return {
        spec.name: typical([case.floors[spec.name] for case in golden.cases if spec.name in case.floors])
        for spec in golden.outputs
    }


def all_limits(golden: Golden, folder: Path, precision: str, multiple: float) -> dict[str, dict[str, dict[str, float]]]:
    """Case name -> output name -> ``max_error`` and ``rms_error`` (both 0 for integers, which must be equal)."""
    usual = usual_floors(golden)
    left_out = skipped_cases(precision, [case.name for case in golden.cases])
    limits: dict[str, dict[str, dict[str, float]]] = {}
    for case in (case for case in golden.cases if case.name not in left_out):
        rows = limits.setdefault(case.name, {})
        for name, value in load_case(folder, case).outputs.items():
            rows[name] = {"max_error": 0.0, "rms_error": 0.0}
            if np.issubdtype(value.dtype, np.floating):
                limit = limit_for(precision, case.floors[name], usual[name], multiple, rms_of(value), case.origin)
                rows[name] = {"max_error": limit.max_error, "rms_error": limit.rms_error}
    return limits

"""Stage 4: load an artifact as its users would, and compare it with the source in every case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from convert.cases import skipped_cases
from convert.golden_io import load_case
from convert.limits import usual_floors
from convert.records import Artifact, Case, Check, Golden
from convert.serial import from_plain
from convert.targets import load_target
from convert.targets.base import Session
from convert.validators.numbers import compare_case, failed_case
from convert.validators.tolerance import Typical
from convert.worker import Channel


def run(args: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Check ``args['artifact']`` in ``args['folder']``; returns ``checks`` and the session's ``notes``."""
    golden = from_plain(Golden, args["golden"])
    artifact = from_plain(Artifact, args["artifact"])
    target = load_target(artifact.target)
    channel.say("loading the artifact")
    session = target.open(artifact, Path(args["folder"]), int(args["threads"]))
    usual = usual_floors(golden)
    left_out = skipped_cases(artifact.precision, [case.name for case in golden.cases])
    cases = [case for case in golden.cases if case.name not in left_out]
    checks: list[Check] = []
    for index, case in enumerate(cases):
        channel.say(f"checking case {index + 1} of {len(cases)}")
        checks += _check_case(
            session, case, artifact.precision, target.tolerance.floors, usual, Path(args["golden_folder"])
        )
    notes = session.notes
    session.close()
    return {"checks": checks, "notes": notes}


def _check_case(
    session: Session, case: Case, precision: str, multiple: float, usual: dict[str, Typical], folder: Path
) -> list[Check]:
    data = load_case(folder, case)
    before = {name: value.copy() for name, value in data.feeds.items()}
    try:
        # Copies of the results: a runtime may hand out views of buffers that its next run overwrites.
        actual = {name: np.array(value) for name, value in session.run(data.feeds).items()}
    except Exception as error:  # whatever a runtime raises, one case that does not run is a failed case
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return [failed_case(case, f"{type(error).__name__}: {lines[0] if lines else ''}"[:300])]
    if any(
        not np.array_equal(before[name], data.feeds[name], equal_nan=before[name].dtype.kind == "f") for name in before
    ):
        return [failed_case(case, "the artifact wrote into its inputs")]
    return compare_case(case, precision, multiple, data.outputs, data.truths, actual, usual)

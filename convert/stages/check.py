"""Stage 4: load an artifact as its users would, and compare it with the source in every case."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from convert.cases import left_out
from convert.golden_io import CaseData, load_case
from convert.limits import usual_floors
from convert.precisions import INTEGER, LEAST_AGREEMENT, LEAST_SQNR_DB
from convert.records import Artifact, Case, Check, Golden
from convert.serial import from_plain
from convert.targets import load_target
from convert.targets.base import Session
from convert.validators.integers import compare_integer_case
from convert.validators.numbers import compare_case, failed_case
from convert.worker import Channel

Comparison = Callable[[Case, CaseData, dict[str, Any]], list[Check]]


def run(args: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Check ``args['artifact']`` in ``args['folder']``; returns ``checks``, ``notes`` and ``placement``."""
    golden = from_plain(Golden, args["golden"])
    artifact = from_plain(Artifact, args["artifact"])
    target = load_target(artifact.target)
    channel.say("loading the artifact")
    session = open_artifact(artifact, args)
    skipped = left_out(artifact, golden)
    cases = [case for case in golden.cases if case.name not in skipped]
    compare = comparison(artifact.precision, golden, target.tolerance.floors, args.get("least_sqnr"))
    checks: list[Check] = []
    try:
        for index, case in enumerate(cases):
            channel.say(f"checking case {index + 1} of {len(cases)}")
            checks += _check_case(session, case, compare, Path(args["golden_folder"]))
        return {
            "checks": checks,
            "notes": session.notes,
            "engine": session.inspect() or None,
            "placement": session.placement,
        }
    finally:
        session.close()


def open_artifact(artifact: Artifact, args: dict[str, Any]) -> Session:
    """The artifact in ``args['folder']``: in this process, or where ``args['place']`` says."""
    folder, threads = Path(args["folder"]), int(args["threads"])
    if args.get("place") is None:
        return load_target(artifact.target).open(artifact, folder, threads)
    from convert.remote.opening import open_in  # needs packages that the toolchains do not have

    return open_in(args["place"], artifact, folder, threads)


def comparison(precision: str, golden: Golden, floors: float, least_sqnr: float | None) -> Comparison:
    """How one case is compared with the source.

    Args:
        precision: of the artifact.
        golden: what it is compared with.
        floors: the target's multiple of the noise floor, for floats.
        least_sqnr: lowest SQNR in dB that passes, for integers; None for the usual one.
    """
    if precision in INTEGER:
        real = any(case.origin == "sample" for case in golden.cases)
        least = LEAST_SQNR_DB if least_sqnr is None else least_sqnr

        def by_noise(case: Case, data: CaseData, actual: dict[str, Any]) -> list[Check]:
            measured = case.origin == ("sample" if real else "draw")
            return compare_integer_case(case, data.outputs, actual, least, LEAST_AGREEMENT, measured)

        return by_noise
    usual = usual_floors(golden)

    def by_floors(case: Case, data: CaseData, actual: dict[str, Any]) -> list[Check]:
        return compare_case(case, precision, floors, data.outputs, data.truths, actual, usual)

    return by_floors


def _check_case(session: Session, case: Case, compare: Comparison, folder: Path) -> list[Check]:
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
    return compare(case, data, actual)

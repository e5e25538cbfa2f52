"""Compare outputs that an artifact gave on another host with the source's, case by case, as the check stage does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from convert.cases import left_out
from convert.golden_io import load_arrays, load_case
from convert.records import Artifact, Check, Golden
from convert.serial import from_plain
from convert.stages.check import comparison
from convert.targets import load_target
from convert.targets.trt_host.compare import Comparison, compare
from convert.targets.trt_host.folder import open_recipe
from convert.validators.numbers import failed_case
from convert.worker import Channel

_RULE = "rms error on calibration data, from the lowest SQNR that passes"


def run(args: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Give ``checks`` of ``args['outputs']`` (case -> file) for ``args['artifact']`` and the recipe it was made from.

    Every case is compared with the source by the rules and limits of this host; those that only the recipe has
    (calibration data of int8) by the limits in it, which its hash vouches for.
    """
    golden = from_plain(Golden, args["golden"])
    artifact = from_plain(Artifact, args["artifact"])
    folder, outputs = Path(args["outputs_folder"]), dict(args["outputs"])
    skipped = left_out(artifact, golden)
    judge = comparison(
        artifact.precision, golden, load_target(artifact.target).tolerance.floors, args.get("least_sqnr")
    )
    checks: list[Check] = []
    channel.say(f"comparing {len(outputs)} cases with the source")
    for case in golden.cases:
        if case.name in skipped:
            continue
        if case.name not in outputs:
            checks.append(failed_case(case, "the result has no outputs for it"))
            continue
        data = load_case(Path(args["golden_folder"]), case)
        checks += judge(case, data, _outputs(folder / outputs[case.name]))
    checks += _more(Path(args["recipe"]), {case.name for case in golden.cases}, folder, outputs)
    return {"checks": checks}


def _outputs(file: Path) -> dict[str, Any]:
    with np.load(file, allow_pickle=False) as stored:
        return {key.removeprefix("out:"): stored[key] for key in stored.files}


def _more(place: Path, known: set[str], folder: Path, outputs: dict[str, str]) -> list[Check]:
    """The cases that only the recipe has."""
    recipe = open_recipe(place)
    checks: list[Check] = []
    for case in recipe.cases:
        name = str(case["name"])
        if name in known:
            continue
        if name not in outputs:
            checks.append(Check(name, "", _RULE, float("inf"), 0.0, False, detail="the result has no outputs for it"))
            continue
        data = load_arrays(place / "golden" / case["file"])
        arrays = {f"out:{key}": value for key, value in data.outputs.items()}
        found = compare(_outputs(folder / outputs[name]), arrays, case["limits"])
        checks += [_check(name, one) for one in found]
    return checks


def _check(case: str, one: Comparison) -> Check:
    measured = np.isfinite(one.figure) and np.isfinite(one.limit)
    figure, limit = (one.figure, one.limit) if measured else (float("inf"), 0.0)
    return Check(case, one.output, _RULE, figure, limit, not one.wrong and bool(measured), detail=one.wrong)

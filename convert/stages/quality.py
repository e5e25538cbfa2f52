"""Run an artifact on the samples that the source was run on, in the runtime's toolchain."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from convert.golden_io import load_arrays
from convert.quantize.quality import Tally
from convert.records import Artifact
from convert.serial import from_plain
from convert.targets import load_target
from convert.worker import Channel


def run(args: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Compare output by output; write all predictions to ``args['predictions']`` where that is asked for."""
    artifact = from_plain(Artifact, args["artifact"])
    session = load_target(artifact.target).open(artifact, Path(args["folder"]), int(args["threads"]))
    tally = Tally()
    rows: list[dict[str, Any]] = []
    for index, (name, count, room) in enumerate(args["batches"]):
        channel.say(f"measuring quality, batch {index + 1} of {len(args['batches'])}")
        data = load_arrays(Path(args["reference"]) / name)
        actual = {key: np.array(value) for key, value in session.run(data.feeds).items()}
        tally.add(data.outputs, actual, count, room)
        rows.append(real(actual, count, room))
    session.close()
    if args["predictions"]:
        np.savez(args["predictions"], **joined(rows))
    return {"quality": tally.result()}


def real(arrays: Mapping[str, Any], count: int, room: int) -> dict[str, Any]:
    """The arrays of a batch without the samples that only fill it up; one sample without an axis for it gets one."""
    if not room:
        return {key: value[None] for key, value in arrays.items()}
    return {key: value[:count] if value.ndim and value.shape[0] == room else value for key, value in arrays.items()}


def joined(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Output name -> its values for all samples."""
    return {key: np.concatenate([np.atleast_1d(row[key]) for row in rows]) for key in rows[0]}

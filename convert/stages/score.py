"""The user's own metric on the predictions of the source and of an artifact, where the user's code runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from convert.golden_io import load_arrays
from convert.quantize.metric import score
from convert.records import Golden, Quantization
from convert.serial import from_plain
from convert.stages.calibration import quality_data
from convert.stages.quality import joined
from convert.worker import Channel


def run(args: dict[str, Any], channel: Channel) -> dict[str, float]:
    """Give ``source`` and ``artifact``: the metric on the same samples."""
    asked = from_plain(Quantization, args["quantization"])
    golden = from_plain(Golden, args["golden"])
    assert asked.metric is not None  # noqa: S101  (else nobody asks)
    channel.say("computing the metric")

    def data() -> Iterator[tuple[dict[str, Any], Any]]:
        pairs = zip(quality_data(asked, args["samples"], golden).batches(), args["batches"], strict=False)
        for (feeds, labels, count), _ in pairs:
            yield {name: value[:count] if value.ndim else value for name, value in feeds.items()}, labels

    with np.load(args["predictions"], allow_pickle=False) as stored:
        predictions = {name: stored[name] for name in stored.files}
    truth = joined([_outputs(Path(args["reference"]), name, count) for name, count in args["batches"]])
    return {"source": score(asked.metric, truth, data()), "artifact": score(asked.metric, predictions, data())}


def _outputs(folder: Path, name: str, count: int) -> dict[str, Any]:
    outputs = load_arrays(folder / name).outputs
    return {key: value[:count] if value.ndim and value.shape[0] > count else value for key, value in outputs.items()}

"""The user's own metric on the predictions of the source and of an artifact, where the user's code runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convert.golden_io import load_arrays
from convert.quantize.data import Data
from convert.quantize.metric import score
from convert.records import Golden, Quantization
from convert.serial import from_plain
from convert.stages.calibration import quality_data
from convert.stages.quality import joined, real
from convert.worker import Channel


@dataclass(frozen=True)
class Scored:
    """Feeds and labels of every batch that the source was run on, as often as the user's function asks."""

    data: Data
    batches: int

    def __iter__(self) -> Iterator[tuple[dict[str, Any], Any]]:
        """Without the samples that only fill a batch up."""
        for batch, _ in zip(self.data.batches(), range(self.batches), strict=False):
            yield real(batch.feeds, batch.samples, batch.room), batch.labels


def run(args: dict[str, Any], channel: Channel) -> dict[str, float]:
    """Give ``source`` and ``artifact``: the metric on the same samples."""
    asked = from_plain(Quantization, args["quantization"])
    golden = from_plain(Golden, args["golden"])
    assert asked.metric is not None  # noqa: S101  (else nobody asks)
    sys.path[:0] = [folder for folder in args["code"] if folder not in sys.path]
    channel.say("computing the metric")
    found = quality_data(asked, args["samples"], golden, trust_pickle=args["trust_pickle"])
    data = Scored(found, len(args["batches"]))
    with np.load(args["predictions"], allow_pickle=False) as stored:
        predictions = {name: stored[name] for name in stored.files}
    reference = Path(args["reference"])
    truth = joined([real(load_arrays(reference / name).outputs, count, room) for name, count, room in args["batches"]])
    return {"source": score(asked.metric, truth, data), "artifact": score(asked.metric, predictions, data)}

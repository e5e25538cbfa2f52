"""Run the source on real data once; every artifact's quality is measured against what it gave."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from convert.errors import InputError
from convert.golden_io import CaseData, save_arrays
from convert.models.load import load
from convert.models.run import plan_call
from convert.records import Golden, ModelRef, Quantization
from convert.serial import from_plain
from convert.stages.calibration import quality_data
from convert.stages.running import Source
from convert.worker import Channel

#: Enough for a share of 0.2 % to show, and a few hundred megabytes of pictures at most. The user's own metric gets all.
MOST_SAMPLES = 512
#: Bytes that are left free on the disk.
_SPARE = 1 << 30


def run(args: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Write feeds and outputs to ``args['folder']``, a file a batch: of all samples for a metric, else of up to 512.

    Returns:
        ``batches``: of each the name of its file, its number of real samples, and the length of the axis that counts
        them (0 where none does).
    """
    golden = from_plain(Golden, args["golden"])
    ref = from_plain(ModelRef, args["ref"])
    loaded = load(ref)
    source = Source(loaded, plan_call(loaded, tuple(spec.name for spec in golden.inputs)), False, ref.path)
    asked = from_plain(Quantization, args["quantization"])
    data = quality_data(asked, args["samples"], golden, trust_pickle=ref.trust_pickle)
    batches: list[tuple[str, int, int]] = []
    for index, batch in enumerate(data.batches()):
        channel.say(f"running the source on real data, batch {index + 1}")
        name = f"{index:05d}.npz"
        save_arrays(Path(args["folder"]) / name, CaseData(batch.feeds, source.run(batch.feeds), {}))
        batches.append((name, batch.samples, batch.room))
        if asked.metric is None and sum(count for _, count, _ in batches) >= MOST_SAMPLES:
            break
        if shutil.disk_usage(args["folder"]).free < _SPARE:
            raise InputError(
                f"the disk of {args['folder']} has less than 1 GiB left for {data.name}; give fewer samples"
            )
    return {"batches": batches}

"""What a source takes, for ``convert init``: said by its file or found by trying."""

from __future__ import annotations

from typing import Any

from convert.errors import InputError
from convert.models.load import load
from convert.records import ModelRef
from convert.serial import from_plain
from convert.specs import BATCH_RANGE, format_input
from convert.stages.inputs import settle_inputs
from convert.worker import Channel


def run(args: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Load ``args['ref']`` and find its inputs.

    Returns:
        ``module`` and ``parameters``; ``inputs`` and ``dims`` as on the command line; ``open``, the dimensions whose
        range is not known; ``notes``; and ``unknown``, why there are no inputs (empty where there are).
    """
    channel.say("loading the source")
    ref = from_plain(ModelRef, args["ref"])
    loaded = load(ref)
    found: dict[str, Any] = {"module": loaded.class_name, "parameters": loaded.parameters}
    try:
        settled = settle_inputs(loaded, ref.path, (), None, channel.say)
    except InputError as error:
        return found | {"inputs": [], "dims": [], "open": [], "notes": [], "unknown": str(error)}
    names = list(dict.fromkeys(size for spec in settled.specs for size in spec.shape if isinstance(size, str)))
    ranges = {dim.name: (dim.min, dim.opt, dim.max) for dim in loaded.dims}
    for name in names:
        if all(spec.shape.index(name) == 0 for spec in settled.specs if name in spec.shape) or settled.probed:
            ranges.setdefault(name, BATCH_RANGE)
    return found | {
        "inputs": [format_input(spec) for spec in settled.specs],
        "dims": [f"{name}={'..'.join(map(str, ranges[name]))}" for name in names if name in ranges],
        "open": [name for name in names if name not in ranges],
        "notes": list(settled.notes),
        "unknown": "",
    }

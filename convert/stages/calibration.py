"""The user's calibration data in a worker: for the cases, for builds, and for the measurement of quality."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convert.paths import is_folder
from convert.records import Golden, Kind, Quantization
from convert.worker import Channel

if TYPE_CHECKING:
    from convert.quantize.data import Data
    from convert.stages.running import Opened

MOST_CASES = 4
#: What every worker can read where it lies, with numpy alone.
_PLAIN = (".npy", ".npz")


def calibration_data(asked: Quantization, golden: Golden) -> Data | None:
    """The data as feeds of the source; None where the user gave none."""
    from convert.quantize.data import open_data, stored

    if asked.calibration is None:
        return None
    if asked.stored is not None:
        return stored(Path(asked.stored))
    return open_data(asked.calibration, golden, asked.preprocess, asked.limit)


def quality_data(asked: Quantization, samples: str | None, golden: Golden, *, trust_pickle: bool) -> Data:
    """What quality is measured on: the evaluation data, else the calibration data, else the samples."""
    from convert.quantize.data import open_data

    if asked.evaluation is not None:
        return open_data(asked.evaluation, golden, asked.preprocess, trust_pickle=trust_pickle)
    found = calibration_data(asked, golden)
    if found is not None:
        return found
    assert samples is not None  # noqa: S101  (the parent asks only where there are data)
    return open_data(samples, golden, trust_pickle=trust_pickle)


def with_calibration(
    opened: Opened, asked: Quantization, folder: Path, channel: Channel, *, trust_pickle: bool
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The samples to prove on, and notes.

    These are those of ``--samples``, else the first batches of the evaluation data, else of the calibration data.

    Data that need torch, other packages or code of the user's to be read are left in ``folder`` for other workers,
    which have none of these; so that code runs once, too.

    Raises:
        InputError: the data do not fit the model.
    """
    from convert.quantize.data import open_data, store

    interface = Golden(Kind.FACTORY, "", 0, 0, tuple(opened.specs), tuple(opened.dims), (), (), "")
    samples = opened.samples
    if asked.evaluation is not None:
        channel.say("reading the evaluation data")
        held_out = quality_data(asked, None, interface, trust_pickle=trust_pickle)
        held_out.check()
        samples = samples or list(islice(held_out, MOST_CASES))
    if asked.calibration is None:
        return samples, ()
    channel.say("reading the calibration data")
    data = open_data(asked.calibration, interface, asked.preprocess, asked.limit, trust_pickle=trust_pickle)
    plain = data.random or (asked.calibration.endswith(_PLAIN) and not is_folder(Path(asked.calibration)))
    if plain:
        data.check()
    else:
        data = store(data, folder, labels=asked.metric is not None)
    notes = ("the calibration data are random, so that ranges and accuracy mean nothing",) if data.random else ()
    return samples or list(islice(data, MOST_CASES)), notes

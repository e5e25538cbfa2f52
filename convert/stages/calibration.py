"""The user's calibration data in a worker: for the cases, for builds, and for the measurement of quality."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from convert.records import Golden, Kind, Quantization
from convert.worker import Channel

if TYPE_CHECKING:
    from convert.quantize.data import Data
    from convert.stages.running import Opened

MOST_CASES = 4


def calibration_data(asked: Quantization, golden: Golden) -> Data | None:
    """The data as feeds of the source; None where the user gave none."""
    from convert.quantize.data import open_data

    if asked.calibration is None:
        return None
    return open_data(asked.calibration, golden, asked.preprocess, asked.limit)


def quality_data(asked: Quantization, samples: str | None, golden: Golden) -> Data:
    """What quality is measured on: the calibration data, else the samples."""
    from convert.quantize.data import open_data

    found = calibration_data(asked, golden)
    if found is not None:
        return found
    assert samples is not None  # noqa: S101  (the parent asks only where there are data)
    return open_data(samples, golden)


def with_calibration(
    opened: Opened, asked: Quantization, channel: Channel
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The samples to prove on: those of ``--samples``, else the first batches of the calibration data; and notes.

    Raises:
        InputError: the data do not fit the model.
    """
    interface = Golden(Kind.FACTORY, "", 0, 0, tuple(opened.specs), tuple(opened.dims), (), (), "")
    data = calibration_data(asked, interface)
    if data is None:
        return opened.samples, ()
    channel.say("reading the calibration data")
    data.check()
    notes = ("the calibration data are random, so that ranges and accuracy mean nothing",) if data.random else ()
    return opened.samples or list(islice(data, MOST_CASES)), notes

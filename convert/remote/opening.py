"""From the arguments of a worker to an open session: under emulation or on a device."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from convert.emulation import find_emulation
from convert.errors import StageError
from convert.records import Artifact
from convert.remote.devices import parse_device
from convert.remote.emulated import Emulated
from convert.remote.on_device import OnDevice
from convert.remote.place import Place
from convert.remote.session import TimedSession
from convert.targets import load_target
from convert.targets.base import Arrays


def open_in(where: Mapping[str, Any], artifact: Artifact, folder: Path, threads: int) -> TimedSession:
    """Open ``artifact`` where ``where`` says (see :mod:`convert.steps.places`).

    Raises:
        StageError: it does not load there.
    """
    place = place_of(where)
    try:
        return _Whole(load_target(artifact.target).open_elsewhere(artifact, folder, threads, place), place)
    except BaseException:
        place.close()
        raise


class _Whole(TimedSession):
    """A session together with its place, which ends with it."""

    def __init__(self, session: TimedSession, place: Place) -> None:
        self._session = session
        self._place = place
        self.notes = session.notes

    def run(self, feeds: Arrays) -> dict[str, Any]:
        return self._session.run(feeds)

    def times(self, runs: int) -> list[float]:
        return self._session.times(runs)

    def peak_memory(self) -> int:
        return self._session.peak_memory()

    def close(self) -> None:
        try:
            self._session.close()
        finally:
            self._place.close()


def place_of(where: Mapping[str, Any]) -> Place:
    """The place that ``where`` names.

    Raises:
        StageError: it is gone.
    """
    if where["kind"] == "device":
        return OnDevice(parse_device(where["name"]), where["platform"])
    emulation = find_emulation()
    if emulation is None:
        raise StageError(
            "the toolchain arm64-emulation is gone; get it with `convert toolchain install arm64-emulation`"
        )
    return Emulated(emulation, where["platform"], where["cpu"])

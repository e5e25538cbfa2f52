"""Stage 5, worker's side: hold one session and run it when the parent says so.

Toolkits cannot meet in one process, so interleaving is done across processes: the parent asks each in turn, and all the
others wait on their pipe meanwhile.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from convert.golden_io import load_case
from convert.records import Artifact, Golden, ModelRef
from convert.serial import from_plain
from convert.targets import load_target
from convert.targets.base import Session
from convert.worker import Channel


def run(args: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Serve timing requests ``{"runs": n}`` with ``{"times": [seconds, …]}`` until the parent closes the line."""
    golden = from_plain(Golden, args["golden"])
    case = next(case for case in golden.cases if case.name == args["case"])
    feeds = load_case(Path(args["golden_folder"]), case).feeds
    if args.get("place") is not None:
        return _elsewhere(args, feeds, channel)
    session = None if args["what"] == "eager" else _artifact(args)
    call = _eager(args, golden) if session is None else session.run
    call(feeds)
    channel.send({"ready": True})
    while (command := channel.receive()) is not None:
        channel.send({"times": _time(call, feeds, int(command["runs"]))})
    parts = {} if session is None else session.parts(feeds)
    return {"peak_memory_mib": _peak_memory_mib(), "gpu": parts or None}


def _elsewhere(args: dict[str, Any], feeds: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """The same for an artifact on a device, which measures its times itself."""
    from convert.remote.opening import open_in

    artifact = from_plain(Artifact, args["artifact"])
    session = open_in(args["place"], artifact, Path(args["folder"]), int(args["threads"]))
    try:
        session.run(feeds)
        channel.send({"ready": True})
        while (command := channel.receive()) is not None:
            channel.send({"times": session.times(int(command["runs"]))})
        return {"peak_memory_mib": session.peak_memory() / 2**20}
    finally:
        session.close()


def _time(call: Callable[[dict[str, Any]], Any], feeds: dict[str, Any], runs: int) -> list[float]:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call(feeds)
        times.append(time.perf_counter() - start)
    return times


def _artifact(args: dict[str, Any]) -> Session:
    artifact = from_plain(Artifact, args["artifact"])
    return load_target(artifact.target).open(artifact, Path(args["folder"]), int(args["threads"]))


def _eager(args: dict[str, Any], golden: Golden) -> Callable[[dict[str, Any]], Any]:
    import torch

    from convert.models.load import load
    from convert.models.run import plan_call, run_source

    torch.set_num_threads(int(args["threads"]))
    loaded = load(from_plain(ModelRef, args["ref"]))
    plan = plan_call(loaded, tuple(spec.name for spec in golden.inputs))

    def call(feeds: dict[str, Any]) -> list[Any]:
        return [np.asarray(value) for _, value in run_source(loaded, plan, feeds)]

    return call


def _peak_memory_mib() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024 if sys.platform != "darwin" else peak / 2**20

"""Tune the kernels of a graph for tvm, in its toolchain with the packages of ``tvm-tuning`` beside it."""

from __future__ import annotations

import contextlib
from typing import Any

from convert.records_tuning import Tuned
from convert.stages.build import request_of
from convert.targets.tvm import graph_module
from convert.targets.tvm_compile import target_of
from convert.targets.tvm_tuning.identity import for_search
from convert.targets.tvm_tuning.measure import Local, Measurer
from convert.targets.tvm_tuning.session import tune
from convert.worker import Channel


def run(args: dict[str, Any], channel: Channel) -> Tuned:
    """Tune as ``args`` ask: those of a build by the route onnx, and ``tune`` with budget and databases.

    With ``place``, candidates are timed there.
    """
    channel.say("reading the graph")
    request = request_of(args)
    target = target_of(request)
    with contextlib.ExitStack() as held:
        return tune(graph_module(request), target, args["tune"], channel.say, lambda: _measurer(args, target, held))


def _measurer(args: dict[str, Any], target: Any, held: contextlib.ExitStack) -> Measurer:
    if args.get("place") is None:
        return Local(for_search(target))
    from convert.remote.opening import place_of
    from convert.targets.tvm_tuning.remote import OnDevice

    place = place_of(args["place"])
    held.callback(place.close)
    return OnDevice(for_search(target), args["platform"], place, args["settings"].get("zig", ()))

"""Tune the kernels of a graph for tvm, in its toolchain with the packages of ``tvm-tuning`` beside it."""

from __future__ import annotations

from typing import Any

from convert.records_tuning import Tuned
from convert.stages.build import request_of
from convert.targets.tvm import graph_module
from convert.targets.tvm_compile import target_of
from convert.targets.tvm_tuning.session import tune
from convert.worker import Channel


def run(args: dict[str, Any], channel: Channel) -> Tuned:
    """Tune as ``args`` ask: those of a build by the route onnx, and ``tune`` with budget and databases."""
    channel.say("reading the graph")
    request = request_of(args)
    return tune(graph_module(request), target_of(request), args["tune"], channel.say)

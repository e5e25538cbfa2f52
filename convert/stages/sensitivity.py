"""Rank the layers of an integer artifact by the noise that each adds, in the runtime's toolchain."""

from __future__ import annotations

from typing import Any

from convert.records import Layer
from convert.stages.build import request_of
from convert.targets import load_target
from convert.worker import Channel


def run(args: dict[str, Any], channel: Channel) -> dict[str, tuple[Layer, ...]]:
    """Give ``layers``, worst first; ``args`` are those of a build from the float32 artifact."""
    channel.say("measuring the noise of every layer")
    return {"layers": load_target(args["target"]).sensitivity(request_of(args))}

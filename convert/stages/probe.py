"""Ask a target whether this host has the device that it needs, in a process that may crash over the question."""

from __future__ import annotations

from typing import Any

from convert.targets import load_target
from convert.worker import Channel


def run(args: dict[str, Any], channel: Channel) -> dict[str, str]:
    """Give ``reason``: why ``args['target']`` cannot be built or run here; empty where it can."""
    channel.say("looking for the device")
    return {"reason": load_target(args["target"]).probe()}

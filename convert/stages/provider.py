"""Ask onnxruntime whether it can use a provider on this host, in a process that may crash over the question."""

from __future__ import annotations

from typing import Any

from convert.targets.onnx_provider import lacking
from convert.worker import Channel


def run(args: dict[str, Any], channel: Channel) -> dict[str, str]:
    """Give ``reason``: why ``args['provider']`` cannot be used here; empty where it can."""
    channel.say(f"looking for {args['provider']}")
    return {"reason": lacking(args["provider"])}

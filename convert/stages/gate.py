"""A hint for TensorRT recipes: do the parser and the ahead-of-time builder of TensorRT for RTX take the graph?

That is another product than TensorRT, and nothing is run, so the verdict is a hint and never a pass.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from convert.targets.trt_host.building import BuildRefused, build
from convert.targets.trt_host.settings import EngineSettings
from convert.worker import Channel

#: TensorRT supports these; TensorRT for RTX refuses them where there is no GPU, which says nothing of TensorRT.
_NEED_A_DEVICE = frozenset({"NonZero", "RoiAlign", "NonMaxSuppression", "DFT"})
_CAPABILITY = "SM86"


def run(args: dict[str, Any], channel: Channel) -> dict[str, str]:
    """Parse and build ``args['onnx']`` with ``args['profiles']``; gives ``verdict`` and ``reason``."""
    import tensorrt_rtx as trt

    channel.say("asking TensorRT for RTX")
    version = f"TensorRT for RTX {trt.__version__}"
    onnx = Path(args["onnx"])
    try:
        build(trt, onnx, args["profiles"], EngineSettings(capabilities=(_CAPABILITY,)))
    except BuildRefused as error:
        return _refused(str(error), onnx, version)
    return {"verdict": "passed", "reason": f"{version} parses the graph and builds it for {_CAPABILITY}; not run"}


def _refused(reason: str, onnx: Path, version: str) -> dict[str, str]:
    import onnx as library

    model = library.load(str(onnx), load_external_data=False)
    special = sorted({node.op_type for node in model.graph.node} & _NEED_A_DEVICE)
    if special:
        return {
            "verdict": "inconclusive",
            "reason": f"{version} refuses {', '.join(special)} where there is no GPU, TensorRT does not: {reason}",
        }
    return {"verdict": "failed", "reason": f"{version}: {reason}"}

"""A hint for TensorRT recipes: do the parser and the ahead-of-time builder of TensorRT for RTX take the graph?

That is another product than TensorRT, and nothing is run, so the verdict is a hint and never a pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from convert.records_engine import Gate
from convert.targets.trt_host.building import BuildRefused, build
from convert.targets.trt_host.settings import EngineSettings
from convert.worker import Channel

#: TensorRT supports these; TensorRT for RTX refuses them where there is no GPU, which says nothing of TensorRT.
NEED_A_DEVICE = frozenset({"NonZero", "RoiAlign", "NonMaxSuppression", "DFT"})
_CAPABILITY = "SM86"
#: What the builder says where it misses the driver and not something in the graph.
_NO_DRIVER = ("CUDA driver", "CUDA_ERROR", "cudaError")


def run(args: dict[str, Any], channel: Channel) -> Gate:
    """Parse and build ``args['onnx']`` with ``args['profiles']``."""
    import tensorrt_rtx as trt

    channel.say("asking TensorRT for RTX")
    tool = f"TensorRT for RTX {trt.__version__}"
    onnx = Path(args["onnx"])
    try:
        build(trt, onnx, args["profiles"], EngineSettings(capabilities=(_CAPABILITY,)))
    except BuildRefused as error:
        return judge(error, onnx, tool)
    return Gate("passed", tool, f"it parses the graph and builds it for {_CAPABILITY}; not run")


def judge(error: BuildRefused, onnx: Path, tool: str) -> Gate:
    """Whether a refusal speaks of the graph."""
    first = error.faults[0]
    more = f" (and {len(error.faults) - 1} more)" if len(error.faults) > 1 else ""
    reason = f"its {error.step} refuses {first}{more}"
    special = sorted(set(operators(onnx)) & NEED_A_DEVICE)
    if special:
        reason = f"it refuses {', '.join(special)} where there is no GPU, TensorRT does not: {reason}"
    verdict = "inconclusive" if special or any(text in first.reason for text in _NO_DRIVER) else "failed"
    return Gate(verdict, tool, reason, first.node, first.operator)


def operators(onnx: Path) -> Iterator[str]:
    """Kinds of the operators of a graph, those in branches and loops included; none of a file that is no graph."""
    import onnx as library
    from google.protobuf.message import DecodeError

    try:
        graphs = [library.load(str(onnx), load_external_data=False).graph]
    except DecodeError:
        return
    while graphs:
        for node in graphs.pop().node:
            yield str(node.op_type)
            graphs += [attribute.g for attribute in node.attribute if attribute.HasField("g")]
            graphs += [graph for attribute in node.attribute for graph in attribute.graphs]

"""A hint for TensorRT recipes: do the parser and the ahead-of-time builder of TensorRT for RTX take the graph?

That is another product than TensorRT, and nothing is run, so the verdict is a hint and never a pass.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from convert.records_engine import Gate
from convert.targets.onnx_nodes import nodes_of_model
from convert.targets.trt_host.building import BuildRefused, Fault, build, unknown_operator
from convert.targets.trt_host.settings import EngineSettings
from convert.worker import Channel

#: TensorRT supports these; TensorRT for RTX refuses them where there is no GPU, which says nothing of TensorRT.
NEED_A_DEVICE = frozenset({"NonZero", "RoiAlign", "NonMaxSuppression", "DFT"})
_LACKS = "it refuses {} where there is no GPU, TensorRT does not: {}"
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
        return judge(error, onnx, tool, unknown(trt, onnx))
    return Gate("passed", tool, f"it parses the graph and builds it for {_CAPABILITY}; not run")


def judge(error: BuildRefused, onnx: Path, tool: str, unknown_ones: list[Fault]) -> Gate:
    """Whether a refusal speaks of the graph.

    Args:
        error: what the parser or the builder said; the parser stops at the first node that it does not take.
        onnx: the graph.
        tool: who said it.
        unknown_ones: nodes whose operators it does not have at all.
    """
    first = error.faults[0]
    if first.operator in NEED_A_DEVICE and unknown_ones:
        first = unknown_ones[0]  # it was not reached
    more = f" (and {len(error.faults) - 1} more)" if len(error.faults) > 1 else ""
    reason = f"its {error.step} refuses {first}{more}"
    # The builder names layers of its own, not operators.
    special = {first.operator} if first.operator else {node.op_type for node in _nodes(onnx)}
    special &= NEED_A_DEVICE
    if special and not unknown_ones:
        named = ", ".join(sorted(special))
        return Gate("inconclusive", tool, _LACKS.format(named, reason), first.node, first.operator)
    verdict = "inconclusive" if any(text in first.reason for text in _NO_DRIVER) else "failed"
    return Gate(verdict, tool, reason, first.node, first.operator)


def unknown(trt: Any, onnx: Path) -> list[Fault]:
    """Nodes whose operators the parser does not have, but for those that only lack a GPU and functions of the file."""
    log = trt.Logger()
    network = trt.Builder(log).create_network(0)
    parser = trt.OnnxParser(network, log)
    model = _model(onnx)
    own = {function.name for function in model.functions} if model is not None else set()
    return [
        Fault(unknown_operator(node.op_type), node.name, node.op_type)
        for node in _nodes(onnx)
        if node.op_type not in NEED_A_DEVICE | own and not parser.supports_operator(node.op_type)
    ]


def _nodes(onnx: Path) -> list[Any]:
    model = _model(onnx)
    return [] if model is None else list(nodes_of_model(model))


def _model(onnx: Path) -> Any:
    """The graph without its weights; None for a file that is no graph."""
    import onnx as library
    from google.protobuf.message import DecodeError

    try:
        return library.load(str(onnx), load_external_data=False)
    except DecodeError:
        return None

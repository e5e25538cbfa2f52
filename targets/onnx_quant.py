"""int8 forms of an ONNX graph: QDQ with ranges from data or from training, and dynamic without either.

The file that passed in float32 is where they start, so that nothing but rounding can be wrong with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from convert.errors import StageError
from convert.records import Operators
from convert.targets.base import BuildRequest
from convert.targets.onnx_files import save_graph
from convert.targets.onnx_quant_dynamic import make_dynamic
from convert.targets.onnx_quant_graph import Graph
from convert.targets.onnx_quant_measure import measure
from convert.targets.onnx_quant_plan import CPU, CPU_7BIT, Everything, Scheme, floats_out, make_plan
from convert.targets.onnx_quant_pool import pool_globally
from convert.targets.onnx_quant_read import operators_as_run
from convert.targets.onnx_quant_write import write_qdq
from convert.targets.onnx_ranges import learned_ranges
from convert.targets.ranges import Range

#: Routes by precision, in order. Kernels of x86-64 CPUs without VNNI add two products in 16 bits, which 8-bit weights
#: can overflow (measured: 32 dB with VNNI, 9 dB without): so weights have 7 bits where that is good enough, and 8 where
#: it is not or where training has put them on a grid of 8.
ROUTES: Mapping[str, tuple[str, ...]] = {
    "int8": ("qdq-7bit", "qdq", "qdq-7bit-learned"),
    "int8-dynamic": ("dynamic-7bit", "dynamic"),
}
_SEVEN_BITS = (
    "weights have 7 bits, so that the file is right on x86-64 CPUs without VNNI, too, where onnxruntime adds two "
    "products in 16 bits"
)
_EIGHT_BITS = (
    "checked on a CPU that adds products in 32 bits (VNNI); on an x86-64 CPU without it onnxruntime may be less "
    "accurate unless its session option session.x64quantprecision is 1"
)


def write_int8(request: BuildRequest, to: Path) -> tuple[tuple[str, ...], Operators]:
    """Write the artifact of an integer route to ``to``; returns notes, and what computes in integers.

    Raises:
        StageError: the model or the request does not allow it.
    """
    assert request.base is not None  # noqa: S101  (these routes need the base)
    assert request.base_folder is not None  # noqa: S101
    source = request.base_folder / request.base.files[0]
    seven = "-7bit" in request.route
    if request.precision == "int8" and seven and (request.ranges is None) == request.route.endswith("-learned"):
        raise StageError(
            "the weights were trained on a grid of 8 bits, which comes first"
            if request.ranges is not None
            else "nothing was learned in training, so this is the route qdq-7bit"
        )
    notes: tuple[str, ...] = ()
    if request.precision == "int8-dynamic":
        model = dynamic(request, source, 64 if seven else 127)
    else:
        model, notes = quantized(request, source, CPU_7BIT if seven else CPU)
    save_graph(model, to)
    notes += (_SEVEN_BITS,) if seven else (_EIGHT_BITS,) if has_vnni() else ()
    return notes, operators_as_run(to, request.scratch)


def has_vnni(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether this is an x86-64 CPU that adds products of bytes in 32 bits."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "avx512_vnni" in text or "avx_vnni" in text


def dynamic(request: BuildRequest, source: Path, largest: int) -> Any:
    """The graph of ``source`` with weights in int8 and nothing else known."""
    import onnx

    require_float_boundary(request)
    return make_dynamic(onnx.load(str(source)), largest, request.keep)


def quantized(request: BuildRequest, source: Path, scheme: Scheme) -> tuple[Any, tuple[str, ...]]:
    """The graph of ``source`` with QDQ as ``scheme`` wants it, and notes.

    Args:
        request: its learned ranges or else its calibration data give the ranges; its ``keep`` names the nodes that
            stay in float.
        source: a float32 graph.
        scheme: what the runtime can do.

    Raises:
        StageError: there are neither ranges nor data, or nothing in the graph computes in integers.
    """
    import onnx

    require_float_boundary(request)
    graph, notes = prepared(onnx.load(str(source))), ()  # type: tuple[Graph, tuple[str, ...]]
    if request.ranges is not None:
        from convert.targets.onnx_ranges import learned_ranges

        ranges, notes = learned_ranges(request, graph)
    else:
        ranges = measured(request, graph, scheme)
    return with_ranges(graph, scheme, ranges, request.keep).model, notes


def prepared(model: Any) -> Graph:
    """``model`` as both measuring and writing see it; changed in place."""
    graph = Graph(model)
    pool_globally(graph)
    return graph


def measured(request: BuildRequest, graph: Graph, scheme: Scheme) -> dict[str, Range]:
    """Ranges of all values of ``graph`` that integers could stand for: learned in training, else over the data."""
    if request.ranges is not None:
        return learned_ranges(request, graph)[0]
    if request.calibration is None:
        raise StageError("int8 needs ranges and there is no calibration data; give real inputs with --calibration FILE")
    wanted = make_plan(graph, scheme, Everything(but=floats_out(graph))).values - graph.constants.keys()
    return measure(
        graph.model,
        wanted,
        request.calibration,
        request.quantization,
        request.scratch,
        symmetric=scheme.symmetric,
    )


def with_ranges(graph: Graph, scheme: Scheme, ranges: Mapping[str, Range], keep: tuple[str, ...] = ()) -> Graph:
    """Write QDQ into ``graph`` with exactly these ranges; values without one stay float.

    Raises:
        StageError: nothing would compute in integers, or ``keep`` names a node that is not there.
    """
    unknown = set(keep) - {node.name for node in graph.graph.node}
    if unknown:
        raise StageError(f"the graph has no node {sorted(unknown)[0]!r} that could stay in float")
    plan = make_plan(graph, scheme, ranges, keep)
    if not plan.nodes:
        kinds = ", ".join(sorted({node.op_type for node in graph.graph.node}))
        raise StageError(f"nothing in the graph ({kinds}) computes in integers by {scheme.name}; use float16 instead")
    write_qdq(graph, plan, scheme, ranges)
    return graph


def require_float_boundary(request: BuildRequest) -> None:
    """Refuse integers at the boundary, for which an ONNX file has no place to say their scale."""
    if request.quantization.io_type != "float":
        raise StageError(
            f"--io-type {request.quantization.io_type} is not for {request.target}: nothing in an ONNX graph tells a "
            "caller the scale of an integer input; leave it at float"
        )

"""What an ONNX file computes in integers and what in float, read back from the file and never assumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from convert.records import Operators
from convert.targets.onnx_quant_measure import plain_session

#: They turn one kind of number into the other, or compute nothing.
_CONVERSIONS = frozenset(
    {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Cast", "Constant", "Identity", "Shape", "Size"}
)
#: onnxruntime's kernels that multiply integers and give floats.
_INTEGER = frozenset(
    {"QGemm", "MatMulInteger", "MatMulIntegerToFloat", "ConvInteger", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"}
)
_FLOATS = ("tensor(float)", "tensor(float16)", "tensor(double)")


def operators_as_run(file: Path, scratch: Path) -> Operators:
    """What onnxruntime makes of ``file`` on its CPU provider, after its own optimisations.

    A node counts as integer where it takes and gives no floating tensor apart from scales, or is one of
    onnxruntime's integer kernels; conversions between the two and nodes without floats or int8 at all do not count.
    """
    import onnx
    import onnxruntime as ort

    optimised = scratch / "optimised.onnx"
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.log_severity_level = 3
    options.optimized_model_filepath = str(optimised)
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "optimised.onnx.data")
    ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    model = onnx.load(str(optimised))
    kinds = _kinds(model, scratch / "typed.onnx")
    constants = {tensor.name for tensor in model.graph.initializer}
    return _count(model.graph.node, lambda node: _computes(node, kinds, constants))


def operators_as_written(model: Any) -> Operators:
    """What a runtime that goes by QDQ computes in integers: the nodes that take nothing but dequantized values."""
    producer = {name: node.op_type for node in model.graph.node for name in node.output}

    def integer(node: Any) -> bool | None:
        inputs = [producer.get(name, "") for name in node.input[:2]]
        return node.op_type in ("Conv", "Gemm", "MatMul") and set(inputs) == {"DequantizeLinear"}

    return _count(model.graph.node, integer)


def _count(nodes: Any, integer: Callable[[Any], bool | None]) -> Operators:
    found: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for node in nodes:
        said = integer(node) if node.op_type not in _CONVERSIONS else None
        if said is not None:
            found[said][node.op_type] += 1
    return Operators(dict(sorted(found[True].items())), dict(sorted(found[False].items())))


def _computes(node: Any, kinds: dict[str, str], constants: set[str]) -> bool | None:
    if node.op_type in _INTEGER:
        return True
    seen = {kinds.get(name, "") for name in (*node.input, *node.output) if name and name not in constants}
    if seen & set(_FLOATS):
        return False
    return True if seen & {"tensor(int8)", "tensor(uint8)"} else None


def _kinds(model: Any, file: Path) -> dict[str, str]:
    """Type of every value, as onnxruntime infers it: its own operators are known to nobody else."""
    import onnx

    typed = onnx.ModelProto()
    typed.CopyFrom(model)
    given = {value.name for value in typed.graph.output}
    values = dict.fromkeys(name for node in typed.graph.node for name in node.output if name)
    typed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in values if name not in given)
    session = plain_session(typed, file)
    return {value.name: value.type for value in (*session.get_inputs(), *session.get_outputs())}

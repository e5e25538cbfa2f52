"""An ONNX file as the source: run as it is by onnxruntime, without any graph optimization."""

from __future__ import annotations

from typing import Any

from convert.errors import InputError
from convert.models.factory import one_line
from convert.records import InputSpec


class OnnxSource:
    """Calls an ONNX graph with arrays by name.

    Attributes:
        inputs: what the graph takes; a named dimension of the file stays a name, an unnamed one is ``INPUT_AXIS``.
        outputs: names of the results, in order.
    """

    def __init__(self, path: str) -> None:
        """Open the file.

        Raises:
            InputError: it is broken, its external data is missing, onnxruntime cannot run it, or a weight is NaN.
        """
        import onnx
        import onnxruntime

        try:
            model = onnx.load(path)
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.log_severity_level = 3
            self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise InputError(f"{path} cannot be opened by onnxruntime ({one_line(error)}); check the file") from error
        weights = {item.name: item for item in model.graph.initializer}
        self.parameters, self.parameter_bytes = _measure(path, weights)
        self.inputs = tuple(_spec(path, item) for item in model.graph.input if item.name not in weights)
        self.outputs = tuple(item.name for item in self._session.get_outputs())

    def __call__(self, feeds: dict[str, Any]) -> dict[str, Any]:
        """Run once; takes and returns numpy arrays by name."""
        return dict(zip(self.outputs, self._session.run(None, feeds), strict=True))


def _measure(path: str, weights: dict[str, Any]) -> tuple[int, int]:
    """Number and bytes of the weights; raises ``InputError`` for a NaN among them."""
    import numpy as np
    import onnx

    count = size = 0
    for name, item in weights.items():
        array = onnx.numpy_helper.to_array(item)
        count, size = count + array.size, size + array.nbytes
        if array.dtype.kind == "f" and bool(np.isnan(array).any()):
            raise InputError(f"weight {name} of {path} holds NaN; find out how that came about in training")
    return count, size


def _spec(path: str, item: Any) -> InputSpec:
    import onnx

    tensor = item.type.tensor_type
    if not item.type.HasField("tensor_type") or not tensor.elem_type:
        raise InputError(f"input {item.name} of {path} is no tensor; only tensors can be converted")
    if not tensor.HasField("shape"):
        raise InputError(f"input {item.name} of {path} has no shape; run onnx.shape_inference or export it with one")
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if dtype.kind not in "fiub":
        raise InputError(f"input {item.name} of {path} holds {dtype}; only numbers and booleans can be converted")
    shape = tuple(_size(item.name, at, dim) for at, dim in enumerate(tensor.shape.dim))
    return InputSpec(item.name, str(dtype), shape)


def _size(name: str, at: int, dim: Any) -> int | str:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return str(dim.dim_param) or f"{name}_{at}"

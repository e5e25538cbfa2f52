"""Write a tiny ONNX model: ``y = tanh(x w + b)`` for float32[N,8]. Run by the core toolchain's Python."""

from __future__ import annotations

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

random = np.random.default_rng(0)
weights = [random.normal(size=size).astype(np.float32) for size in ((8, 4), (4,))]
nodes = [("MatMul", ["x", "w"], "m"), ("Add", ["m", "b"], "a"), ("Tanh", ["a"], "y")]
graph = helper.make_graph(
    [helper.make_node(kind, inputs, [output]) for kind, inputs, output in nodes],
    "small",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
    [numpy_helper.from_array(value, name) for value, name in zip(weights, "wb", strict=True)],
)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), sys.argv[1])

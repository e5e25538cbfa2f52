"""How large the sums get that an operator makes on its way, by the values that go into it.

Where signs cancel, or where the sum is divided or rooted, it is larger than the result that can be seen. Definitions
are those of the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_DEFAULT_NORM_AXES = [0, 2, 3]  # of MeanVarianceNormalization
_REDUCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "ReduceMean": np.abs,
    "ReduceSum": np.abs,
    "ReduceL1": np.abs,
    "ReduceLogSum": np.abs,
    "ReduceL2": np.square,
    "ReduceSumSquare": np.square,
    "ReduceLogSumExp": np.exp,
}


def largest_sum(node: Any, values: Mapping[str, Any]) -> float:
    """The largest sum of magnitudes that makes one element of the result; 0 for operators that make none.

    Args:
        node: an ``onnx.NodeProto``.
        values: what it reads, by name, as float32 arrays.
    """
    value = values.get(node.input[0]) if node.input else None
    rule = _RULES.get(node.op_type)
    if rule is None or not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
        return 0.0
    finite = np.where(np.isfinite(value), value, 0).astype(np.float64)
    with np.errstate(over="ignore"):
        found = rule(node, finite, values)
    return float(found) if np.isfinite(found) else float("inf")


def attribute(node: Any, name: str, default: Any = None) -> Any:
    """The value of an attribute of ``node``."""
    from onnx import helper

    for one in node.attribute:
        if one.name == name:
            return helper.get_attribute_value(one)
    return default


def _over(terms: Any, axes: Any) -> float:
    axes = tuple(int(axis) for axis in axes)
    return float(terms.sum(axis=axes).max()) if axes else float(terms.max())


def _reduce(node: Any, value: Any, values: Mapping[str, Any]) -> float:
    axes = attribute(node, "axes")
    if axes is None and len(node.input) > 1 and node.input[1]:
        given = values.get(node.input[1])
        axes = None if given is None else given.reshape(-1).tolist()
    if not axes:
        axes = () if attribute(node, "noop_with_empty_axes", 0) else range(value.ndim)
    return _over(_REDUCTIONS[node.op_type](value), axes)


def _global_pool(node: Any, value: Any, values: Mapping[str, Any]) -> float:
    del values
    power = attribute(node, "p", 2) if node.op_type == "GlobalLpPool" else 1
    return _over(np.abs(value) ** power, range(2, value.ndim))


def _pool(node: Any, value: Any, values: Mapping[str, Any]) -> float:
    """An upper bound: as if every place of the window held the largest value."""
    del values
    power = attribute(node, "p", 2) if node.op_type == "LpPool" else 1
    return float(np.abs(value).max() ** power * np.prod(attribute(node, "kernel_shape", [1])))


def _deviations(value: Any, axes: Any) -> float:
    """Both sums of a norm: of the values, for the mean, and of the squares of what is left."""
    axes = tuple(int(axis) for axis in axes)
    left = value - value.mean(axis=axes, keepdims=True)
    return max(_over(np.abs(value), axes), _over(left**2, axes))


def _layer_norm(node: Any, value: Any, values: Mapping[str, Any]) -> float:
    del values
    if attribute(node, "stash_type", 1) == 1:
        return 0.0  # the specification has it computed in float32
    axis = attribute(node, "axis", -1)
    return _deviations(value, range(axis % value.ndim, value.ndim))


def _group_norm(node: Any, value: Any, values: Mapping[str, Any]) -> float:
    del values
    groups = attribute(node, "num_groups", 1)
    return _deviations(value.reshape(value.shape[0], groups, -1), [2])


def _instance_norm(node: Any, value: Any, values: Mapping[str, Any]) -> float:
    del node, values
    return _deviations(value, range(2, value.ndim))


def _mean_variance_norm(node: Any, value: Any, values: Mapping[str, Any]) -> float:
    del values
    return _deviations(value, attribute(node, "axes", _DEFAULT_NORM_AXES))


def _lp_norm(node: Any, value: Any, values: Mapping[str, Any]) -> float:
    del values
    return _over(np.abs(value) ** attribute(node, "p", 2), [attribute(node, "axis", -1)])


def _softmax(node: Any, value: Any, values: Mapping[str, Any]) -> float:
    """Exponentials of at most 1 each, since the largest value is taken off first."""
    del values
    return float(value.shape[attribute(node, "axis", -1)])


_RULES: Mapping[str, Callable[[Any, Any, Mapping[str, Any]], float]] = {
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "GlobalAveragePool": _global_pool,
    "GlobalLpPool": _global_pool,
    "AveragePool": _pool,
    "LpPool": _pool,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _layer_norm,
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _instance_norm,
    "MeanVarianceNormalization": _mean_variance_norm,
    "LpNormalization": _lp_norm,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
}

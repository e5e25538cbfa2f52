"""A graph that is run operator by operator gives what it gives as a whole, with every value rounded in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import graphs

from convert.targets.onnx_stepwise import Stepwise, in_order

pytestmark = pytest.mark.toolkit

X = {"x": np.linspace(-2, 2, 128, dtype=np.float32).reshape(2, 64)}


def half(nodes: list[Any], **constants: Any) -> Any:
    """A graph between two casts that computes in float16."""
    nodes = [("Cast", "x", "h", {"to": 10}), *nodes, ("Cast", "z", "y", {"to": 1})]
    return graphs.make(nodes, {"x": ("N", 64)}, ["y"], constants, opset=18)


def test_it_rounds_between_operators() -> None:
    model = half([("Exp", "h", "e"), ("Add", "e big", "s"), ("Sub", "s big", "z")], big=np.float16(2048))
    value = np.exp(X["x"].astype(np.float16).astype(np.float32)).astype(np.float16)
    wanted = ((value + np.float16(2048)) - np.float16(2048)).astype(np.float32)
    np.testing.assert_array_equal(Stepwise(model).run(X)["y"], wanted)
    assert len(np.unique(wanted)) < 6


def test_float32_graphs_give_what_they_give_as_a_whole() -> None:
    model = graphs.residual()
    feeds = {"x": np.random.default_rng(0).normal(size=(2, 3, 6, 6)).astype(np.float32)}
    whole = graphs.run(model, feeds, optimised=False)
    step = Stepwise(model).run(feeds)
    for value, name in zip(whole, step, strict=True):
        np.testing.assert_allclose(step[name], value, rtol=1e-6, atol=1e-6)


def test_any_order_of_nodes_and_any_number_of_runs() -> None:
    model = half([("Relu", "h", "r"), ("Neg", "r", "z")])
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    run = Stepwise(model).run
    for scale in (1, 2):
        wanted = -np.maximum(X["x"] * scale, 0).astype(np.float16).astype(np.float32)
        np.testing.assert_array_equal(run({"x": X["x"] * scale})["y"], wanted)


def test_branches_take_values_from_outside() -> None:
    from onnx import TensorProto, helper

    def branch(operator: str) -> Any:
        out = helper.make_tensor_value_info("b" + operator, TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(operator, ["r"], ["b" + operator])], operator, [], [out])

    model = graphs.make([("Relu", "x", "r")], {"x": ("N", 64)}, ["y"], {"yes": np.array(True)}, opset=18)
    node = helper.make_node("If", ["yes"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs"))
    model.graph.node.insert(0, node)
    np.testing.assert_array_equal(Stepwise(model).run(X)["y"], -np.maximum(X["x"], 0))


def test_a_sequence_is_refused() -> None:
    nodes = [("SequenceConstruct", "x x", "s"), ("ConcatFromSequence", "s", "y", {"axis": 0})]
    with pytest.raises(TypeError, match="s is no tensor"):
        Stepwise(graphs.make(nodes, {"x": ("N", 64)}, ["y"], {}, opset=18)).run(X)


def test_nodes_that_cannot_be_put_in_order() -> None:
    model = graphs.make([("Relu", "nothing", "y")], {"x": ("N", 64)}, ["y"], {}, opset=18)
    with pytest.raises(ValueError, match="reads what nothing gives"):
        in_order(model.graph.node, {"x"})

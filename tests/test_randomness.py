"""A source that gives other numbers the second time is refused, by the name of what does it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convert.records import Kind, ModelRef

pytest.importorskip("torch")
import torch
from torch import nn
from torch.nn import functional

from convert.stages.randomness import differing, random_in_graph, random_operators, why_unrepeatable
from convert.stages.running import Source
from convert.stages.state import State

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
X = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)


def source_of(module: Any) -> Source:
    from convert.models.load import _live
    from convert.models.run import plan_call

    loaded = _live(module, ModelRef("m", Kind.FACTORY, "f"))
    return Source(loaded, plan_call(loaded, ("x",)), False, "m")


def why(module: Any) -> tuple[str, Source]:
    source = source_of(module)
    return why_unrepeatable(source, {"x": X}, source.run({"x": X})), source


class Noisy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x, 0.3, training=True) + torch.randn(x.shape)


class Quiet(nn.Module):
    """Everything that could draw random numbers, switched off."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.attention = nn.Dropout(0.5), nn.MultiheadAttention(8, 2, dropout=0.2, batch_first=True)
        self.rnn = nn.LSTM(8, 8, num_layers=2, dropout=0.4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.attention(x[None], x[None], x[None])[0]
        y = functional.scaled_dot_product_attention(y, y, y)
        return functional.rrelu(functional.dropout(self.drop(self.rnn(y)[0]), 0.0, training=True))


class Tossing(nn.Module):
    """Noise that seldom reaches the output."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.sum() + torch.rand(1) > 0.4).long()


class Ignoring(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.rand(3)
        return x * 2


class Outside(nn.Module):
    """Randomness that is not torch's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + float(np.random.default_rng().random())


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return x * self.calls


class Logging(nn.Module):
    """State in every place, on which no output depends."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("last", None)
        self.seen: list[Any] = []
        self.table = {"n": 0}
        self.steps = 0
        self.inner = nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls = torch.ones(())
        self.last = x[:1].clone()
        self.seen.append(x)
        self.table["n"] += 1
        self.steps += 1
        functional.batch_norm(x, self.inner.running_mean, self.inner.running_var, training=True)
        return x * 2


class Caching(nn.Module):
    """Only what it keeps as a plain attribute makes the second call another one."""

    def __init__(self) -> None:
        super().__init__()
        self.previous: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x if self.previous is None else x + self.previous
        self.previous = x
        return y


class Learning(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.linear.weight.data.mul_(1.5)
        return self.linear(x)


def test_random_operators_are_named() -> None:
    reason, source = why(Noisy())
    assert reason == (
        "the source gives another output each time it runs on the same inputs (it draws random numbers with "
        "aten.dropout, aten.randn), so no artifact can be proven; make it deterministic"
    )
    assert random_operators(source, {"x": X}) == {"aten.dropout": 1, "aten.randn": 1}


def test_dropout_that_is_off_is_no_randomness() -> None:
    reason, source = why(Quiet())
    assert (reason, source.random, source.updated) == ("", (), set())


def test_dropout_that_is_off_in_a_program_is_no_randomness(tmp_path: Path) -> None:
    from convert.models.load import load
    from convert.models.run import plan_call

    file = str(tmp_path / "m.pt2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(Quiet().eval(), (torch.from_numpy(X),)), file)
    loaded = load(ModelRef(file, Kind.EXPORTED))
    source = Source(loaded, plan_call(loaded, ("x",)), False, file)
    assert why_unrepeatable(source, {"x": X}, source.run({"x": X})) == ""
    assert (source.random, source.updated) == ((), set())


def test_a_scripted_module_is_watched_too() -> None:
    reason, _ = why(torch.jit.script(Noisy()))
    assert "(it draws random numbers with aten.dropout, aten.randn)" in reason


def test_noise_that_seldom_reaches_the_output_is_found() -> None:
    torch.manual_seed(0)
    reason, _ = why(Tossing())
    assert reason.startswith("the source gives another output each time")


def test_noise_that_reaches_no_output_is_said() -> None:
    reason, source = why(Ignoring())
    assert reason == ""
    assert source.notes() == ("aten.rand draw random numbers in forward, which did not move any output",)


def test_randomness_from_elsewhere_is_refused() -> None:
    assert why(Outside())[0] == (
        "the source gives another output each time it runs on the same inputs (no random operator of torch was seen: "
        "Python's or numpy's random numbers, or state outside of buffers), so no artifact can be proven; make it "
        "deterministic"
    )


def test_outputs_that_depend_on_state_are_refused() -> None:
    reason, source = why(Counting())
    assert reason == (
        "the source gives another output when it is called again, since it depends on state that it updates in "
        "forward (buffer calls), and an artifact keeps no state between calls; make that state an input and an output"
    )
    np.testing.assert_array_equal(source.run({"x": X})["output"], X)  # as freshly loaded


def test_outputs_that_depend_on_an_attribute_are_refused() -> None:
    reason, source = why(Caching())
    assert "state that it updates in forward (attribute previous)" in reason
    np.testing.assert_array_equal(source.run({"x": X})["output"], X)


def test_a_scripted_module_gets_its_buffers_back() -> None:
    reason, source = why(torch.jit.script(Counting()))
    assert "(buffer calls)" in reason
    np.testing.assert_array_equal(source.run({"x": X})["output"], X)


def test_state_that_moves_no_output_is_said_and_given_back() -> None:
    module = Logging()
    seen, table, running = module.seen, module.table, module.inner.running_mean
    reason, source = why(module)
    assert reason == ""
    (note,) = source.notes()
    assert note == (
        "forward updates attribute seen, attribute steps, attribute table, buffer calls, buffer inner.running_mean, "
        "buffer inner.running_var, buffer last; an artifact gives what the first call gives and keeps no state"
    )
    assert (module.seen, module.table, module.steps, module.last) == ([], {"n": 0}, 0, None)
    assert (module.seen is seen, module.table is table, module.inner.running_mean is running) == (True, True, True)
    assert float(module.calls) == 0
    assert running is not None
    assert not running.any()


def test_copies_in_other_types_start_afresh() -> None:
    source = source_of(Counting())
    source.run({"x": X})
    for dtype in ("float64", "float64", "float16"):
        np.testing.assert_array_equal(source.run({"x": X}, dtype)["output"], X.astype(dtype))


def test_a_source_that_changes_its_weights_is_refused() -> None:
    reason, _ = why(Learning())
    assert reason == (
        "the source changes its own weights in forward (linear.weight), so each call is that of another model and no "
        "artifact can be proven; keep what changes in a buffer"
    )


def test_nan_is_no_change() -> None:
    module = nn.Module()
    module.register_buffer("mask", torch.full((3,), float("nan")))
    state = State(module)
    assert state.restore() == ()
    assert module.mask is not None
    module.mask[1] = 0.0
    assert state.restore() == ("buffer mask",)
    assert bool(torch.isnan(module.mask).all())


def test_two_runs_differ_in_nan_only_where_the_other_is_a_number() -> None:
    nan = np.array([np.nan, 1.0])
    assert differing({"y": nan}, {"y": nan.copy()}) == ""
    assert differing({"y": nan}, {"y": np.array([0.0, 1.0])}) == "y"
    assert differing({"y": nan}, {}) == "y"


def test_random_operators_of_an_onnx_file(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    make = onnx.helper
    inner = make.make_graph(
        [make.make_node("RandomUniform", [], ["r"], shape=[1])],
        "inner",
        [],
        [make.make_tensor_value_info("r", onnx.TensorProto.FLOAT, [1])],
    )
    nodes = [
        make.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner),
        make.make_node("Dropout", ["y"], ["z"]),
        make.make_node("Dropout", ["y", "", "c"], ["w"]),
    ]
    graph = make.make_graph(
        nodes,
        "g",
        [make.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])],
        [make.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [1])],
    )
    onnx.save(make.make_model(graph), tmp_path / "m.onnx")
    assert random_in_graph(str(tmp_path / "m.onnx")) == {"RandomUniform": 2, "Dropout": 1}

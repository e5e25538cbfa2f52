"""Fake quantization, the graph behind it, and the module that is trained."""

from __future__ import annotations

import copy
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.qat_nets import NETWORKS, SHAPE, Concat, Mobile, Plain, conv_norm, flat, learned, trained_like
from torch import Tensor, nn

import convert.qat
from convert.errors import InputError
from convert.models.exported import open_program
from convert.qat.fake import Quantizer, activation_scale, quantize_activation, quantize_bias, quantize_weight
from convert.qat.plan import Kind, Ref, Step, find_scales
from convert.qat.ranges import EXTRA


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)


def test_importing_the_package_loads_no_torch() -> None:
    code = "import sys, convert; convert.qat.read_ranges; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("low", "high", "scale", "zero"),
    [
        (0.0, 255.0, 1.0, -128.0),
        (-128.0, 127.0, 1.0, 0.0),
        (-127.0, 128.0, 1.0, -1.0),
        (-0.5, 254.5, 1.0, -128.0),  # -127.5 rounds to the even neighbour
        (-1.5, 253.5, 1.0, -126.0),  # and so does -126.5
        (-51.0, 0.0, 0.2, 127.0),
    ],
)
def test_scale_and_zero_point_of_a_range(low: float, high: float, scale: float, zero: float) -> None:
    found = activation_scale(torch.tensor(low), torch.tensor(high))
    assert [float(value) for value in found] == [pytest.approx(scale, rel=1e-7), zero]


def test_activations_round_halves_to_even_and_saturate() -> None:
    given = numbers(-200, -0.5, 0.5, 1.5, 2.5, 2.4, 126.6, 200)
    found = quantize_activation(given, torch.tensor(1.0), torch.tensor(0.0))
    assert found.tolist() == [-128, 0, 0, 2, 2, 2, 127, 127]


def test_zero_is_exact_whatever_the_range() -> None:
    scale, zero = activation_scale(torch.tensor(-0.37), torch.tensor(1.91))
    assert quantize_activation(numbers(0.0), scale, zero).tolist() == [0.0]


def test_activations_use_the_zero_point() -> None:
    # Range 0..127.5: steps of a half, zero at -128, so that the largest integer is 127 at 127.5.
    scale, zero = activation_scale(torch.tensor(0.0), torch.tensor(127.5))
    assert quantize_activation(numbers(-3, 0.2, 0.3, 1.25, 127.4, 128), scale, zero).tolist() == [
        0,
        0,
        0.5,
        1,
        127.5,
        127.5,
    ]


def test_the_gradient_passes_rounding_and_stops_outside_the_range() -> None:
    x = numbers(-200, 0.3, 126.9, 200).requires_grad_()
    quantize_activation(x, torch.tensor(1.0), torch.tensor(0.0)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 1, 1, 0]


def test_weights_have_a_symmetric_scale_for_each_output_channel() -> None:
    weight = torch.tensor([[[[127.0, -127.0, 0.5, 1.5]]], [[[12.7, -6.35, 0.04, 0.06]]]])
    found = quantize_weight(weight)
    assert found[0].flatten().tolist() == [127, -127, 0, 2]
    # Steps of a tenth: -63.5 rounds to the even -64 of its two neighbours.
    assert found[1].flatten().tolist() == pytest.approx([12.7, -6.4, 0.0, 0.1], rel=1e-6)


def test_weights_never_reach_minus_128() -> None:
    steps = quantize_weight(torch.tensor([[-1.0, 0.9999]])) * 127
    assert steps.flatten().tolist() == pytest.approx([-127, 127], abs=1e-4)


def test_a_bias_has_the_scale_of_input_times_weight() -> None:
    found = quantize_bias(numbers(1.0, 1.0), torch.tensor(0.5), numbers(0.5, 0.75).reshape(2, 1))
    assert found.tolist() == [1.0, 1.125]  # 4 steps of a quarter; 2.67 steps of 3/8, which is 3


def test_a_range_is_the_moving_average_and_holds_zero() -> None:
    quantizer = Quantizer(1, averaging=0.75)
    quantizer(numbers(1, 5), 0)
    assert [float(value) for value in quantizer.range()] == [0, 5]
    quantizer(numbers(-4, 9), 0)
    assert [float(value) for value in quantizer.range()] == [-0.25, 6]
    quantizer.eval()(numbers(-100, 100), 0)
    assert [float(value) for value in quantizer.range()] == [-0.25, 6]


def test_tensors_with_one_scale_have_the_union_of_their_averages() -> None:
    quantizer = Quantizer(2, averaging=0.5)
    quantizer(numbers(-1, 1), 0)
    quantizer(numbers(0, 3), 1)
    assert [float(value) for value in quantizer.range()] == [-1, 3]


def test_a_tensor_of_zeros_has_a_step_all_the_same() -> None:
    quantizer = Quantizer(1, averaging=0.5)
    assert quantizer(numbers(0, 0), 0).tolist() == [0, 0]
    assert [float(value) for value in quantizer.range()] == [0, 1]


def test_values_that_are_not_finite_end_training() -> None:
    with pytest.raises(InputError, match="a value in training is not finite; lower the learning rate"):
        Quantizer(1, averaging=0.5)(numbers(1, float("nan")), 0)


def step(name: str, kind: Kind, operator: str, *reads: str) -> Step:
    return Step(name, kind, f"aten.{operator}.default", tuple(map(Ref, reads)))


def test_concat_max_pool_and_moves_share_a_scale_and_fixed_ones_are_rounded_again() -> None:
    steps = [
        step("x", Kind.INPUT, "x"),
        step("conv", Kind.LAYER, "conv2d", "x"),
        step("relu", Kind.ACTIVATION, "relu", "conv"),
        step("pool", Kind.MOVE, "max_pool2d", "relu"),
        step("gate", Kind.FIXED, "sigmoid", "x"),
        step("cat", Kind.CONCAT, "cat", "pool", "gate"),
        step("mean", Kind.COMPUTE, "mean", "cat"),
    ]
    found = find_scales(steps, ["mean"])
    assert len({found.group[name] for name in ("conv", "relu", "pool", "cat")}) == 1
    assert found.fixed == {"gate": "sigmoid"}
    assert set(found.edges) == {("cat", "gate")}
    assert found.sites[found.group["cat"]] == 2  # relu and the gate shape it
    assert set(found.points) == {"x", "relu", "gate", "mean"}  # moves keep the grid, and conv is inside relu


def test_an_activation_is_fused_only_where_nothing_else_reads_the_layer() -> None:
    steps = [
        step("x", Kind.INPUT, "x"),
        step("conv", Kind.LAYER, "conv2d", "x"),
        step("relu", Kind.ACTIVATION, "relu", "conv"),
        step("add", Kind.COMPUTE, "add", "conv", "relu"),
    ]
    found = find_scales(steps, ["add"])
    assert found.group["conv"] != found.group["relu"]
    assert {"conv", "relu"} <= set(found.points)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_prepared_graph_is_the_model_with_batch_norm_folded(name: str) -> None:
    net = trained_like(NETWORKS[name])
    qat = convert.qat.prepare(net, torch.zeros(SHAPE)).eval()
    assert not any(isinstance(part, nn.BatchNorm2d) for part in qat.modules())
    x = torch.randn(3, *SHAPE[1:])
    with torch.no_grad(), qat.qat_exact():
        for wanted, found in zip(flat(net(x)), flat(qat(x)), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_layers_keep_their_names_and_folded_weights_are_trained() -> None:
    net = trained_like(Mobile)
    qat = convert.qat.prepare(net, torch.zeros(SHAPE))
    assert {"stem.0.weight", "stem.0.bias", "block.3.weight", "head.1.weight"} <= set(dict(qat.named_parameters()))
    conv, norm = net.stem[0], net.stem[1]
    factor = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    torch.testing.assert_close(qat.get_parameter("stem.0.weight"), conv.weight * factor.reshape(-1, 1, 1, 1))


def test_it_trains() -> None:
    qat = convert.qat.prepare(trained_like(Plain), torch.zeros(SHAPE))
    optimizer = torch.optim.Adam(qat.parameters(), lr=0.01)
    x, labels = torch.randn(16, *SHAPE[1:]), torch.arange(16) % 5
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(qat(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.85 * losses[0]


def test_copies_and_state_dicts_compute_the_same() -> None:
    qat, x = learned(trained_like(Concat)), torch.randn(4, *SHAPE[1:])
    wanted = qat(x)[0]
    file = io.BytesIO()
    torch.save(qat, file)
    file.seek(0)
    other = convert.qat.prepare(trained_like(Concat), torch.zeros(SHAPE)).eval()
    other.load_state_dict(qat.state_dict())
    for copied in (copy.deepcopy(qat), torch.load(file, weights_only=False), other):
        assert torch.equal(copied(x)[0], wanted)


def test_dropout_drops_in_training_only() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 64))
    qat, x = convert.qat.prepare(net, torch.zeros(2, 8)), torch.ones(2, 8)
    assert not torch.equal(qat(x), qat(x))
    qat.eval()
    assert torch.equal(qat(x), qat(x))


class Dense(nn.Module):
    """Batch norm before the convolution, which is read twice, as in DenseNet."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.conv = nn.BatchNorm2d(3), nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(torch.relu(self.norm(x)))


def test_a_batch_norm_without_a_layer_becomes_a_depthwise_convolution() -> None:
    net = trained_like(Dense)
    qat = convert.qat.prepare(net, torch.zeros(SHAPE)).eval()
    assert qat.get_parameter("norm.weight").shape == (3, 1, 1, 1)
    x = torch.randn(2, *SHAPE[1:])
    with torch.no_grad(), qat.qat_exact():
        torch.testing.assert_close(qat(x), net(x))


class Shared(nn.Module):
    """One layer used twice, with a batch norm after the first use only."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = conv_norm(3, 3)

    def forward(self, x: Tensor) -> Any:
        return self.conv(torch.relu(self.norm(self.conv(x))))


def test_a_layer_that_is_used_twice_is_not_folded() -> None:
    net = trained_like(Shared)
    qat = convert.qat.prepare(net, torch.zeros(SHAPE)).eval()
    x = torch.randn(2, *SHAPE[1:])
    assert qat.get_parameter("conv.weight").shape == (3, 3, 3, 3)
    with torch.no_grad(), qat.qat_exact():
        torch.testing.assert_close(qat(x), net(x))


def test_an_exported_program_can_be_prepared() -> None:
    net = trained_like(Plain)
    program = torch.export.export(net, (torch.zeros(4, *SHAPE[1:]),))
    qat = convert.qat.prepare(program, torch.zeros(4, *SHAPE[1:])).eval()
    x = torch.randn(4, *SHAPE[1:])
    with torch.no_grad(), qat.qat_exact():
        torch.testing.assert_close(qat(x), net(x))


class InPlace(nn.Module):
    """Changes a tensor in place and goes on under its old name; ``part`` changes it through a view of it."""

    def __init__(self, *, part: bool) -> None:
        super().__init__()
        self.layer, self.part = nn.Linear(4, 4), part

    def forward(self, x: Tensor) -> Any:
        x = self.layer(x)
        (x[:, :2] if self.part else x).relu_()
        return x + 1


def test_a_tensor_that_is_changed_in_place_is_followed() -> None:
    net, x = InPlace(part=False), torch.randn(5, 4)
    qat = convert.qat.prepare(net, x).eval()
    with torch.no_grad(), qat.qat_exact():
        torch.testing.assert_close(qat(x), net(x))


class Branch(nn.Module):
    """What runs depends on the values."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        return self.layer(x) if x.sum() > 0 else x


class Activated(nn.Module):
    """A linear layer and one more operator."""

    def __init__(self, after: Any) -> None:
        super().__init__()
        self.layer, self.after = nn.Linear(4, 4), after

    def forward(self, x: Tensor) -> Any:
        return self.after(self.layer(x))


@pytest.mark.parametrize(
    ("model", "example", "message"),
    [
        (Branch(), torch.zeros(2, 4), "Branch cannot be prepared, since torch.export cannot record it"),
        (
            Activated(nn.LeakyReLU()),
            torch.zeros(2, 4),
            r"leaky_relu \(leaky_relu\) cannot be prepared for int8 training; what",
        ),
        (Activated(nn.Hardtanh(0, 4)), torch.zeros(2, 4), "hardtanh .* with the bounds 0 and 4; use ReLU6"),
        (Activated(lambda x: nn.functional.relu6(x.flatten())), torch.zeros(2, 4), "relu6 .* does not directly follow"),
        (
            Activated(nn.BatchNorm1d(4, track_running_stats=False)),
            torch.zeros(2, 4),
            "uses the statistics of its batch",
        ),
        (InPlace(part=True), torch.randn(8, 4), "the recorded graph differs from the model in add"),
        (nn.Embedding(4, 4), torch.zeros(2, dtype=torch.int64), "input input_1 is int64; only models that take floats"),
        ("model.pt", torch.zeros(2, 4), "a str cannot be prepared; give a torch.nn.Module or an exported program"),
        (nn.Linear(4, 4), {"x": torch.zeros(2, 4)}, "example_inputs is a dict; give a tensor or a tuple of tensors"),
        (nn.Linear(4, 4), (1.0,), "example_inputs holds a float; give a tensor or a tuple of tensors"),
    ],
)
def test_what_cannot_be_prepared_is_one_sentence(model: Any, example: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        convert.qat.prepare(model, example)
    assert "\n" not in str(caught.value)


def test_a_model_keeps_its_mode_and_weights() -> None:
    net = trained_like(Plain).train()
    before = copy.deepcopy(net.state_dict())
    qat = convert.qat.prepare(net, torch.zeros(SHAPE))
    with torch.no_grad():
        for weight in qat.parameters():
            weight.zero_()
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_ranges_that_were_never_learned_are_one_sentence(tmp_path: Path) -> None:
    qat = convert.qat.prepare(trained_like(Plain), torch.zeros(SHAPE))
    with pytest.raises(InputError, match="the ranges were never learned; run the prepared module in train mode"):
        convert.qat.save(qat, tmp_path / "m.pt2")
    with pytest.raises(InputError, match="never learned"):
        qat.eval()(torch.zeros(SHAPE))
    assert not list(tmp_path.iterdir())


def test_only_a_prepared_module_is_saved(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a Linear has no learned ranges; give what convert\.qat\.prepare returned"):
        convert.qat.save(nn.Linear(1, 1), tmp_path / "m.pt2")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A trained module and its file."""
    qat, file = learned(trained_like(Mobile)), tmp_path_factory.mktemp("qat") / "mobile.pt2"
    convert.qat.save(qat, file)
    return qat, file


def test_the_saved_program_is_the_float_network_with_weights_on_the_grid(saved: tuple[Any, Path]) -> None:
    qat, file = saved
    program = open_program(str(file), trust_pickle=False)
    weight = program.state_dict["q001_conv2d.weight"].detach()
    steps = weight / (weight.abs().amax((1, 2, 3), keepdim=True) / 127)
    assert float((steps - steps.round()).abs().max()) < 1e-3
    assert torch.equal(weight, quantize_weight(qat.get_parameter("stem.0.weight")))
    assert not any("dropout" in node.name for node in program.graph.nodes)
    for batch in (1, 3):
        x = torch.randn(batch, *SHAPE[1:])
        scale = float(qat.qat_quantizer("linear").scale()[0])
        with torch.no_grad():
            assert float((program.module()(x) - qat(x)).abs().max()) < 12 * scale


def test_the_file_holds_the_ranges_of_every_value(saved: tuple[Any, Path]) -> None:
    qat, file = saved
    ranges = convert.qat.read_ranges(file)
    assert ranges is not None
    assert (ranges["inputs"], ranges["outputs"]) == (["q000_x"], ["q013_linear"])
    relu6 = ranges["points"]["q002_hardtanh"]
    assert relu6 == ranges["points"]["q001_conv2d"] | {"operator": "hardtanh", "reads": ["q001_conv2d"], "inside": ""}
    assert [relu6["low"], relu6["high"]] == [float(value) for value in qat.qat_quantizer("hardtanh").range()]
    assert 0 == relu6["low"] < relu6["high"] <= 6


def test_other_files_have_no_ranges(tmp_path: Path) -> None:
    (tmp_path / "x.pt2").write_bytes(b"no archive")
    assert convert.qat.read_ranges(tmp_path / "x.pt2") is None
    assert convert.qat.read_ranges(Path("models/digits/digits.pt2")) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "are damaged"),
        (json.dumps({"version": 9}), "have the version 9, and this convert reads 1"),
        (json.dumps({"version": 1, "inputs": [], "outputs": ["y"], "points": {}}), "are damaged"),
        (
            json.dumps({"version": 1, "inputs": [], "outputs": [], "points": {"x": {"low": 1, "high": 2}}}),
            "a range is not two numbers around zero",
        ),
    ],
)
def test_damaged_ranges_are_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with zipfile.ZipFile(tmp_path / "m.pt2", "w") as archive:
        archive.writestr(f"m/extra/{EXTRA}", text)
    with pytest.raises(InputError, match=message):
        convert.qat.read_ranges(tmp_path / "m.pt2")

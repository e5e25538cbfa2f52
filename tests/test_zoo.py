"""The reference models: seeded, in eval mode, alive at every size, and with outputs in which an error shows.

torch is imported inside the tests, so that collecting them needs only the registry.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from typing import Any

import pytest

from convert.models.zoo import ZOO, Reference

NAMES = tuple(ZOO)
LEAST_SPREAD = 0.3  # deviation between samples as a share of the root mean square of the output
PARAMETERS = {
    "mlp": 8360, "multi_io": 2956, "masked_pool": 1514, "mobilenet": 23642, "resnet": 79978, "convnext": 39634,
    "prelu_groupnorm": 20023, "unet": 97090, "segment": 9203, "detection": 21362, "vit": 67594,
    "text_encoder": 46184, "decoder": 51120, "lstm": 8598, "bilstm": 7541, "gru": 6486, "audio": 11303,
    "causal": 7445, "video": 4818, "super_resolution": 6700, "mobilenet_v3": 7286, "ranker": 389, "relations": 1363,
    "recommender": 3747,
}  # fmt: skip
SHAPES: dict[str, list[tuple[int | str, ...]]] = {
    "mlp": [("N", 8)],
    "multi_io": [("N", 5), ("N", 3), ("N", 4), ("N", 32)],
    "masked_pool": [("N", 6)],
    "mobilenet": [("N", 10)],
    "resnet": [("N", 10)],
    "convnext": [("N", 10)],
    "prelu_groupnorm": [("N", 6)],
    "unet": [("N", 2, 32, 32)],
    "segment": [("N", 3, "H", "W")],
    "detection": [("N", 80, 4), ("N", 80), ("N", 80, 4)],
    "vit": [("N", 10)],
    "text_encoder": [("N", 8)],
    "decoder": [("N", "T", 100)],
    "lstm": [("N", 6)],
    "bilstm": [("N", "T", 5)],
    "gru": [("N", 6), ("N", "T", 24)],
    "audio": [("N", 7)],
    "causal": [("N", 5, "T")],
    "video": [("N", 6)],
    "super_resolution": [("N", 1, "2H", "2W")],
    "mobilenet_v3": [("N", 10)],
    "ranker": [("N", 5), ("N", 5), ("N", 5, 4), ("N", 12)],
    "relations": [("N", 7)],
    "recommender": [("N", 3), ("N", 5)],
}


def make(reference: Reference) -> Any:
    """Import and call the factory."""
    module, _, function = reference.factory.partition(":")
    return getattr(importlib.import_module(module), function)()


def dims_of(reference: Reference) -> dict[str, tuple[int, int, int]]:
    """Parse ``N=1..4..8``."""
    parsed = {}
    for text in reference.dims:
        name, low, usual, high = re.fullmatch(r"(\w+)=(\d+)\.\.(\d+)\.\.(\d+)", text).groups()  # type: ignore[union-attr]
        parsed[name] = (int(low), int(usual), int(high))
    return parsed


def feeds(reference: Reference, dims: dict[str, int], seed: int = 0) -> list[Any]:
    """Draw one input per line of the reference: normal floats, uniform integers in their range, fair bools."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    drawn = []
    for text in reference.inputs:
        match = re.fullmatch(r"\w+=(\w+)\[([\w,]+)\](?:\{(\d+)\.\.(\d+)\})?", text)
        assert match, text
        dtype, axes, low, high = match.groups()
        shape = [dims[axis] if axis in dims else int(axis) for axis in axes.split(",")]
        if dtype == "float32":
            drawn.append(torch.randn(shape, generator=generator))
        elif dtype == "bool":
            drawn.append(torch.rand(shape, generator=generator) < 0.5)
        else:
            drawn.append(torch.randint(int(low), int(high) + 1, shape, generator=generator))
    return drawn


def size_of(axis: int | str, dims: dict[str, int]) -> int:
    """``2H`` at H=20 is 40."""
    if isinstance(axis, int):
        return axis
    factor, name = re.fullmatch(r"(\d*)(\w+)", axis).groups()  # type: ignore[union-attr]
    return int(factor or 1) * dims[name]


def leaves(value: Any) -> list[Any]:
    """The tensors of a nested output, in order; None is left out."""
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return [] if value is None else [value]


def run(net: Any, inputs: list[Any]) -> list[Any]:
    """Outputs of the net without gradients."""
    import torch

    with torch.no_grad():
        return leaves(net(*inputs))


def at(reference: Reference, which: int) -> dict[str, int]:
    """Dims at their smallest (0), usual (1) or largest (2)."""
    return {name: sizes[which] for name, sizes in dims_of(reference).items()}


def test_registry_needs_no_torch() -> None:
    program = "import sys; import convert.models.zoo; print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_registry_covers_what_converters_get_wrong() -> None:
    assert all(ZOO[name].name == name for name in NAMES)
    assert set(PARAMETERS) == set(SHAPES) == set(NAMES)
    traits = set().union(*(reference.traits for reference in ZOO.values()))
    assert traits == {
        "attention", "bool", "bool-output", "choice", "convolution", "dense-output", "dict-output", "dynamic-size",
        "dynamic-time", "einsum", "int64", "multi-input", "multi-output", "nested-output", "none-output", "permute",
        "recurrent", "resize", "three-dimensional",
    }  # fmt: skip
    for reference in ZOO.values():
        assert all(low < usual < high for low, usual, high in dims_of(reference).values())
        assert ("int64" in reference.traits) == any("int64" in text for text in reference.inputs)


@pytest.mark.toolkit
@pytest.mark.parametrize("name", NAMES)
def test_made_twice_is_the_same_and_disturbs_nothing(name: str) -> None:
    import torch

    threads = torch.get_num_threads()
    torch.manual_seed(7)
    state = torch.get_rng_state()
    first = make(ZOO[name])
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(8)
    torch.set_num_threads(1)
    second = make(ZOO[name])
    torch.set_num_threads(threads)
    assert not any(module.training for module in first.modules())
    assert sum(parameter.numel() for parameter in first.parameters()) == PARAMETERS[name]
    mine, other = first.state_dict(), second.state_dict()
    assert all(torch.equal(mine[key], other[key]) for key in mine | other)
    inputs = feeds(ZOO[name], at(ZOO[name], 1))
    assert all(torch.equal(a, b) for a, b in zip(run(first, inputs), run(second, inputs), strict=True))


@pytest.mark.toolkit
@pytest.mark.parametrize("name", NAMES)
def test_outputs_at_every_size(name: str) -> None:
    import torch

    net = make(ZOO[name])
    for which in range(3):
        dims = at(ZOO[name], which)
        outputs = run(net, feeds(ZOO[name], dims))
        wanted = [tuple(size_of(axis, dims) for axis in shape) for shape in SHAPES[name]]
        assert [tuple(output.shape) for output in outputs] == wanted
        assert all(torch.isfinite(output).all() for output in outputs)


@pytest.mark.toolkit
@pytest.mark.parametrize("name", NAMES)
def test_outputs_differ_between_samples(name: str) -> None:
    inputs = feeds(ZOO[name], at(ZOO[name], 1) | {"N": 32}, seed=3)
    for output in (value.double() for value in run(make(ZOO[name]), inputs)):
        between = output.std(dim=0).square().mean().sqrt()
        assert between / output.square().mean().sqrt() >= LEAST_SPREAD
        assert 0.05 <= output.abs().max() <= 100


@pytest.mark.toolkit
@pytest.mark.parametrize("name", NAMES)
def test_samples_of_a_batch_are_independent(name: str) -> None:
    import torch

    inputs = feeds(ZOO[name], at(ZOO[name], 2), seed=1)
    net = make(ZOO[name])
    alone_outputs = run(net, [value[1:2] for value in inputs])
    for whole, alone in zip(run(net, inputs), alone_outputs, strict=True):
        if whole.dtype != torch.float32:
            assert torch.equal(whole[1:2], alone)
            continue
        torch.testing.assert_close(whole[1:2], alone, rtol=1e-4, atol=1e-5 * float(whole.abs().max()))


#: Every input that is an index into a table: model, place among the inputs, last valid value.
TABLES = [
    (name, place, int(match[1]))
    for name in NAMES
    for place, text in enumerate(ZOO[name].inputs)
    if (match := re.search(r"int64\[.*\]\{0\.\.(\d+)\}", text)) and match[1] != "1"
]


@pytest.mark.toolkit
@pytest.mark.parametrize(("name", "place", "last"), TABLES)
def test_integers_reach_the_end_of_their_range_and_no_further(name: str, place: int, last: int) -> None:
    import torch

    net, inputs = make(ZOO[name]), feeds(ZOO[name], at(ZOO[name], 1))
    assert inputs[place].dtype == torch.int64
    if name == "text_encoder":
        inputs[1][:, -1] = 1  # a word that the mask hides would change nothing
    usual = run(net, inputs)[0]
    inputs[place][..., -1] = last
    assert (run(net, inputs)[0] - usual).abs().max() > 0.1
    inputs[place][..., -1] = last + 1
    with pytest.raises(IndexError):
        run(net, inputs)


@pytest.mark.toolkit
def test_decoder_sees_no_later_word() -> None:
    import torch

    net, (ids,) = make(ZOO["decoder"]), feeds(ZOO["decoder"], {"N": 2, "T": 12})
    before = run(net, [ids])[0]
    ids[:, 7] = (ids[:, 7] + 1) % 100
    after = run(net, [ids])[0]
    torch.testing.assert_close(after[:, :7], before[:, :7], rtol=0, atol=1e-5)
    assert ((after - before)[:, 7:].abs().amax(dim=-1) > 1e-3).all()


@pytest.mark.toolkit
@pytest.mark.parametrize("name", ["text_encoder", "masked_pool"])
def test_masked_positions_do_not_count(name: str) -> None:
    import torch

    net, (values, mask) = make(ZOO[name]), feeds(ZOO[name], at(ZOO[name], 1))
    mask[:, 0] = 1
    mask[:, 3] = 0
    before = run(net, [values, mask])[0]
    values[:, 3] = 5
    torch.testing.assert_close(run(net, [values, mask])[0], before, rtol=0, atol=1e-5)
    mask[:, 3] = 1
    assert (run(net, [values, mask])[0] - before).abs().max() > 0.01


@pytest.mark.toolkit
def test_multi_io_has_none_and_nesting() -> None:
    import torch

    with torch.no_grad():
        value = make(ZOO["multi_io"])(*feeds(ZOO["multi_io"], {"N": 2}))
    assert list(value) == ["score", "state", "parts"]
    assert value["state"] is None
    assert isinstance(value["parts"], tuple)
    assert isinstance(value["parts"][1], list)


@pytest.mark.toolkit
def test_causal_hears_no_later_step() -> None:
    import torch

    net, (x,) = make(ZOO["causal"]), feeds(ZOO["causal"], {"N": 2, "T": 20})
    before = run(net, [x])[0]
    x[:, :, 11] += 1.0
    after = run(net, [x])[0]
    assert torch.equal(after[:, :, :11], before[:, :, :11])
    assert ((after - before)[:, :, 11:19].abs().amax(dim=(0, 1)) > 1e-4).all()
    assert torch.equal(after[:, :, 19:], before[:, :, 19:])


@pytest.mark.toolkit
def test_ranker_orders_and_chooses_by_both_branches() -> None:
    import torch

    with torch.no_grad():
        value = make(ZOO["ranker"])(*feeds(ZOO["ranker"], {"N": 16}))
    assert list(value) == ["best", "place", "kept", "above"]
    assert (value["best"].diff(dim=-1) < 0).all()
    assert (value["place"].dtype, value["above"].dtype) == (torch.int64, torch.bool)
    assert 0.1 < float((value["best"] > 0.5).float().mean()) < 0.9

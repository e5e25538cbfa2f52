"""Factories that draw their weights: the same in every worker, and said."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("torch")
import numpy as np
import torch

from convert.errors import InputError
from convert.models.load import load
from convert.models.seeds import random_weights, seeded
from convert.records import Kind, ModelRef

BODY = """
import numpy, random, torch

def unseeded():
    net = torch.nn.Linear(2, 2)
    net.bias.data[0] = random.random() + numpy.random.rand()
    return net

def seeded():
    torch.manual_seed(4)
    return torch.nn.Linear(2, 2)

def hidden():
    net = torch.nn.Linear(2, 2)
    net.bias.data[:] = torch.from_numpy(numpy.random.default_rng().random(2))
    return net
"""


def ref_to(tmp_path: Path, name: str) -> ModelRef:
    file = tmp_path / f"nets_{tmp_path.name}.py"
    file.write_text(BODY, encoding="utf-8")
    return ModelRef(str(file), Kind.FACTORY, name)


def test_every_load_of_an_unseeded_factory_gives_the_same_weights(tmp_path: Path) -> None:
    ref = ref_to(tmp_path, "unseeded")
    first, second = load(ref), load(ref)
    for one, other in zip(first.module.parameters(), second.module.parameters(), strict=True):
        assert torch.equal(one, other)
    assert random_weights(ref, first) == ("the factory gives random weights (2 of 2 tensors); seeded with 0",)


def test_weights_that_do_not_depend_on_the_seed_are_no_news(tmp_path: Path) -> None:
    ref = ref_to(tmp_path, "seeded")
    assert random_weights(ref, load(ref)) == ()


def test_weights_that_no_seed_fixes_are_refused(tmp_path: Path) -> None:
    ref = ref_to(tmp_path, "hidden")
    with pytest.raises(InputError, match=r"hidden of .* gives other weights each time it is called, although torch"):
        random_weights(ref, load(ref))


def test_the_generators_are_given_back() -> None:
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    want = torch.rand(1).item(), random.random(), np.random.rand()
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    with seeded(0):
        torch.rand(3)
        random.random()
    assert (torch.rand(1).item(), random.random(), np.random.rand()) == want

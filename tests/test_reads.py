"""What a module reads of its inputs into Python, found by watching its operators."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
import numpy as np
import torch

from convert.stages.reads import watch_reads

X = torch.arange(6.0).reshape(2, 3)


def test_values_of_inputs_are_seen_however_they_are_read() -> None:
    def names(call: object) -> str:
        return watch_reads(lambda tensors: call(tensors[0]), [X.clone()]).names  # type: ignore[operator]

    assert names(lambda x: x + 1) == ""
    assert names(lambda x: (x * 2).sum().item())
    assert names(lambda x: torch.equal(x, x + 1)) == "aten.equal"
    assert names(lambda x: x.abs().numpy()) == "Tensor.numpy"
    assert "Tensor.__array__" in names(lambda x: np.asarray(x))
    assert "Tensor.tolist" in names(lambda x: x[0].tolist())


def test_what_depends_on_no_input_is_no_read() -> None:
    table = torch.tensor(3)
    reads = watch_reads(lambda tensors: tensors[0] * table.item() + torch.zeros(3).numpy().sum(), [X.clone()])
    assert reads.values == set()


def test_a_dependence_goes_through_writing_in_place_and_views() -> None:
    def call(tensors: object) -> None:
        place = torch.zeros(2, 3)
        place[1].copy_(tensors[0][1])  # type: ignore[index]
        bool(place.view(-1)[4] > 1)

    assert watch_reads(call, [X.clone()]).values


def test_memory_that_is_used_again_does_not_depend() -> None:
    def call(tensors: object) -> None:
        for _ in range(50):
            gone = tensors[0] * 2  # type: ignore[index]
            del gone
            torch.zeros(2, 3).sum().item()

    assert watch_reads(call, [X.clone()]).values == set()


def test_shapes_that_depend_on_data_and_paths() -> None:
    def call(tensors: object) -> object:
        return torch.nonzero(tensors[0]) if tensors[0].sum() > 3 else tensors[0]  # type: ignore[index]

    many, few = watch_reads(call, [X.clone()]), watch_reads(call, [X * 0])
    assert (many.shapes, few.shapes) == ({"aten.nonzero"}, set())
    assert many.path != few.path

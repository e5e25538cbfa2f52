"""Inputs, dimensions and samples as Python has them, and what the command line makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convert.api_inputs import read_dims, read_inputs, write_samples
from convert.errors import InputError
from convert.models.samples import load_samples
from convert.records import Dim, InputSpec

ROWS = np.arange(8, dtype=np.float32).reshape(4, 2)
IDS = np.arange(4)
FORMS = "give specs such as 'x=float32[N,3,224,224]', or example tensors or arrays (a tuple, or a dict by input name)"


@pytest.mark.parametrize(
    ("inputs", "specs"),
    [
        (None, ()),
        ("x=float32[N,2]", ("x=float32[N,2]",)),
        (["x=float32[N,2]", InputSpec("ids", "int64", ("N",), 0, 9)], ("x=float32[N,2]", "ids=int64[N]{0..9}")),
        (InputSpec("x", "float32", (1, "T")), ("x=float32[1,T]",)),
        (
            {"x": "float32[N,2]", "ids": InputSpec("_", "int64", ("N",))},
            ("x=float32[N,2]", "ids=int64[N]"),
        ),
    ],
)
def test_specs(inputs: Any, specs: tuple[str, ...]) -> None:
    asked = read_inputs(inputs, None, None, ("x",))
    assert (asked.specs, asked.dims, asked.examples) == (specs, (), {})


@pytest.mark.parametrize(
    ("inputs", "names", "specs"),
    [
        (ROWS, ("x", "y"), ("x=float32[4,2]",)),
        ((ROWS, IDS), ("x", "ids"), ("x=float32[4,2]", "ids=int64[4]")),
        ([ROWS, IDS], (), ("input_0=float32[4,2]", "input_1=int64[4]")),
        ({"b": IDS, "a": ROWS}, None, ("b=int64[4]", "a=float32[4,2]")),
        (np.float64(3), ("x",), ("x=float64[]",)),
    ],
)
def test_examples(inputs: Any, names: tuple[str, ...] | None, specs: tuple[str, ...]) -> None:
    asked = read_inputs(inputs, None, None, names)
    assert asked.specs == specs
    assert list(asked.examples) == [text.partition("=")[0] for text in specs]


@pytest.mark.parametrize(
    ("dims", "dynamic", "specs"),
    [
        (None, {"x": {0: "N"}}, ("x=float32[N,2]", "ids=int64[4]")),
        (None, {"x": {0: "N", -1: "T"}, "ids": {0: "N"}}, ("x=float32[N,T]", "ids=int64[N]")),
        ({"B": 8}, None, ("x=float32[B,2]", "ids=int64[B]")),
        ({"N": 8, "T": (1, 9)}, {"ids": {-1: "T"}}, ("x=float32[4,2]", "ids=int64[T]")),
        (None, {}, ("x=float32[4,2]", "ids=int64[4]")),
    ],
)
def test_dynamic_axes_of_examples(dims: Any, dynamic: Any, specs: tuple[str, ...]) -> None:
    asked = read_inputs({"x": ROWS, "ids": IDS}, dims, dynamic, None)
    assert asked.specs == specs
    assert np.array_equal(asked.examples["x"], ROWS)


@pytest.mark.toolkit
def test_tensors_are_examples() -> None:
    import torch

    tensors = {
        "x": torch.ones(2, 3, requires_grad=True),
        "half": torch.ones(1, dtype=torch.bfloat16),
        "mask": torch.ones(2).bool(),
    }
    asked = read_inputs(tensors, None, None, None)
    assert asked.specs == ("x=float32[2,3]", "half=float32[1]", "mask=bool[2]")
    with pytest.raises(InputError, match=r"^x is a tensor that numpy cannot hold \(.*\); give a dense one$"):
        read_inputs({"x": torch.eye(2).to_sparse()}, None, None, None)


def test_a_dimension_alone_is_the_first_axis_only_where_that_is_clear() -> None:
    with pytest.raises(InputError) as caught:
        read_inputs({"x": ROWS, "y": ROWS.T}, {"N": 4}, None, None)
    said = "the examples' first axes differ, so dims= does not say which are dynamic; add dynamic="
    assert str(caught.value) == said
    scalar = read_inputs({"x": ROWS, "y": np.float32(1)}, {"N": 4}, None, None)
    assert scalar.specs == ("x=float32[N,2]", "y=float32[]")


@pytest.mark.parametrize(
    ("inputs", "dynamic", "names", "said"),
    [
        ({"x": "float32[2]", "y": ROWS}, None, None, f"inputs has a ndarray in it; {FORMS}"),
        ((ROWS, None), None, ("x", "y"), f"inputs has None in it; {FORMS}"),
        ((ROWS, "x=float32[2]"), None, ("x", "y"), f"inputs has a str in it; {FORMS}"),
        (7, None, ("x",), f"inputs is a int; {FORMS}"),
        ((), None, ("x",), f"inputs is a tuple; {FORMS}"),
        ((ROWS, IDS), None, ("x",), "inputs has 2 tensors, but the model takes 1 (x)"),
        (
            ROWS,
            None,
            None,
            "the names of a file's inputs are not known here; give the examples as a dict by input name",
        ),
        (np.array(["a"]), None, ("x",), "x holds <U1; only numbers and booleans can be used"),
        (ROWS, {"y": {0: "N"}}, ("x",), "dynamic= names 'y', which is no input; the inputs are x"),
        (ROWS, {"x": {2: "N"}}, ("x",), "dynamic= names axis 2 of x, which has 2 axes; count from 0"),
        (
            "x=float32[N]",
            {"x": {0: "N"}},
            ("x",),
            "dynamic= speaks of example tensors, and there are none; in a spec a word is a dynamic size",
        ),
    ],
)
def test_inputs_that_are_refused(inputs: Any, dynamic: Any, names: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_inputs(inputs, None, dynamic, names)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("dims", "texts"),
    [
        (None, ()),
        ("N=1..4", ("N=1..4",)),
        (Dim("N", 1, 2, 3), ("N=1..2..3",)),
        ({"N": (1, 4, 16), "T": [2, 8], "H": 7, "W": "1..2"}, ("N=1..4..16", "T=2..8", "H=7", "W=1..2")),
        (["N=3", Dim("T", 4, 5, 6)], ("N=3", "T=4..5..6")),
    ],
)
def test_dims(dims: Any, texts: tuple[str, ...]) -> None:
    assert read_dims(dims) == texts


def test_dims_that_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        read_dims([("N", 1)])
    assert str(caught.value) == "dims has a tuple in it; give for example {'N': (1, 4, 16)} or 'N=1..4..16'"


def one_by_one() -> Any:
    yield {"x": ROWS}
    yield {"x": ROWS + 1}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (ROWS, {"x": ROWS}),
        ((ROWS, IDS), {"x": ROWS, "ids": IDS}),
        ({"file": ROWS, "ids": IDS}, {"file": ROWS, "ids": IDS}),
        ([{"x": ROWS}, {"x": IDS}], [{"x": ROWS}, {"x": IDS}]),
        ([(ROWS, IDS), (ROWS,)], [{"x": ROWS, "ids": IDS}, {"x": ROWS}]),
        (one_by_one, [{"x": ROWS}, {"x": ROWS + 1}]),
    ],
)
def test_samples_come_back_as_they_were(value: Any, wanted: Any, tmp_path: Path) -> None:
    given = value() if callable(value) else value
    text = write_samples(given, tmp_path / "samples")
    found = load_samples(text, ("x", "ids"))
    np.testing.assert_equal(found, wanted)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (7, "samples is a int; give arrays by input name, a list of such, or a file"),
        ({"x": [1, 2]}, "samples is a dict; give arrays by input name, a list of such, or a file"),
        ([], "samples holds nothing; give at least one sample, or leave it out"),
        ([{"x": ROWS}, None], "sample 1 is None; give arrays by input name"),
    ],
)
def test_samples_that_are_refused(value: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        write_samples(value, tmp_path / "samples")
    assert str(caught.value) == said

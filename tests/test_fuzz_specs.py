"""Any text as an input, a dimension, a constant or a size: read exactly, or refused in one sentence."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.fuzz import fuzz, require_sentence, words
from hypothesis import given
from hypothesis import strategies as st

from convert.constants import format_constant, parse_constant, parse_constants
from convert.errors import InputError
from convert.options import parse_memory, parse_precisions, parse_targets
from convert.records import Dim, InputSpec
from convert.specs import DTYPES, LARGEST_SIZE, format_input, parse_dim, parse_input, settle_dims

NAMES = st.text(st.characters(exclude_characters="=[]{}\0"), min_size=1, max_size=12).filter(
    lambda text: bool(text.strip()) and text == text.strip()
)
DIM_NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
SIZES = st.one_of(st.integers(1, 9), st.integers(1, LARGEST_SIZE))


@st.composite
def specs(draw: st.DrawFn) -> InputSpec:
    dtype = draw(st.sampled_from(DTYPES))
    shape = tuple(draw(st.lists(st.one_of(SIZES, DIM_NAMES), max_size=5)))
    low = high = None
    if np.dtype(dtype).kind in "iu" and draw(st.booleans()):
        kind = np.iinfo(dtype)
        low, high = sorted(draw(st.tuples(*[st.integers(int(kind.min), int(kind.max))] * 2)))
    return InputSpec(draw(NAMES), dtype, shape, low, high)


@fuzz(300)
@given(specs(), st.sampled_from(["", " ", "\t", "\n  "]))
def test_a_good_input_is_read_back_exactly(spec: InputSpec, blank: str) -> None:
    text = format_input(spec)
    assert parse_input(text) == spec
    assert parse_input(blank + text.replace("[", f"{blank}[{blank}").replace("]", f"{blank}]{blank}")) == spec


@fuzz(200)
@given(DIM_NAMES, st.tuples(SIZES, SIZES, SIZES).map(sorted))
def test_a_good_dimension_is_read_back_exactly(name: str, sizes: list[int]) -> None:
    low, opt, high = sizes
    assert parse_dim(f"{name}={low}..{opt}..{high}") == Dim(name, low, opt, high)
    assert parse_dim(f"{name} = {low} .. {high}") == Dim(name, low, high, high)


@fuzz(100)
@given(DIM_NAMES, st.permutations([3, 5, 8]).filter(lambda sizes: list(sizes) != sorted(sizes)))
def test_sizes_that_do_not_rise_are_refused(name: str, sizes: list[int]) -> None:
    with pytest.raises(InputError, match="must rise from MIN over OPT to MAX"):
        parse_dim(f"{name}={sizes[0]}..{sizes[1]}..{sizes[2]}")


LITERALS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple)),
    max_leaves=8,
)


@fuzz(300)
@given(st.from_regex(r"[A-Za-z_]\w{0,5}", fullmatch=True).filter(str.isidentifier), LITERALS)
def test_a_good_constant_is_read_back_exactly(name: str, value: Any) -> None:
    found = parse_constant(format_constant(name, value))
    assert found == (name, value)
    assert type(found[1]) is type(value)
    assert math.copysign(1, found[1]) == math.copysign(1, value) if isinstance(value, float) else True


READERS: dict[str, Callable[[str], Any]] = {
    "input": parse_input,
    "dim": parse_dim,
    "constant": parse_constant,
    "memory": parse_memory,
    "target": parse_targets,
    "precision": lambda text: parse_precisions(text, ["onnx"]),
}


@pytest.mark.parametrize("name", READERS)
@fuzz(250)
@given(
    st.one_of(
        words(),
        st.tuples(st.sampled_from(["x=float32[", "x=int64[N]{0..", "N=1..", "x=", "8", "onnx,"]), words()).map("".join),
    )
)
def test_any_text_is_read_or_refused_in_one_sentence(name: str, text: str) -> None:
    try:
        found = READERS[name](text)
    except InputError as error:
        require_sentence(error)
        return
    if isinstance(found, InputSpec):
        assert parse_input(format_input(found)) == found
        assert all(0 < size <= LARGEST_SIZE for size in found.shape if isinstance(size, int))
    if isinstance(found, Dim):
        assert 0 < found.min <= found.opt <= found.max <= LARGEST_SIZE
    if name == "memory":
        assert found >= 1
    if name == "constant":
        assert repr(parse_constants([text])) == repr({found[0]: found[1]})


@fuzz(150)
@given(
    st.lists(specs(), max_size=3),
    st.lists(st.builds(lambda n, s: Dim(n, *sorted(s)), DIM_NAMES, st.tuples(*[SIZES] * 3)), max_size=3),
)
def test_dimensions_are_settled_whole_or_refused(inputs: list[InputSpec], dims: list[Dim]) -> None:
    named = {size for spec in inputs for size in spec.shape if isinstance(size, str)}
    try:
        settled = settle_dims(inputs, dims)
    except InputError as error:
        require_sentence(error)
        return
    assert {dim.name for dim in settled} == named


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "sign", [" ", "1", "x ", "a=", "[", "1..", "N=1 ", "x=float32[1]  ", "9 G", "=-", ",", "\u0663"]
)
def test_a_hundred_thousand_signs_take_no_time(name: str, sign: str) -> None:
    begun = time.monotonic()
    for end in ("", "!", "]"):
        for start in ("", "x=float32[", "N=", "1"):
            text = start + sign * (100_000 // len(sign)) + end
            try:
                READERS[name](text)
            except InputError as error:
                require_sentence(error)
    assert time.monotonic() - begun < 5


# What fuzzing has found, once each.


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("x=float32[" + "1" * 5000 + "]", "; a size is at most 2147483647"),
        ("x=float32[2147483648]", " has the size '2147483648'; a size is at most 2147483647"),
        ("x=int64[4]{0.." + "1" * 5000 + "}", "; allowed are -9223372036854775808 to 9223372036854775807"),
        ("x=int64[4]{-" + "1" * 5000 + "..0}", "; allowed are -9223372036854775808 to 9223372036854775807"),
    ],
)
def test_numbers_of_any_length_in_an_input(text: str, rest: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_input(text)
    assert str(caught.value).endswith(rest)


@pytest.mark.parametrize("text", ["N=2147483648", "N=1.." + "9" * 5000])
def test_numbers_of_any_length_in_a_dimension(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_dim(text)
    assert str(caught.value) == f"--dim {text!r} is too large; a size is at most 2147483647"


@pytest.mark.parametrize("text", ["1" * 400, "9" * 310 + "T", "1" * 5000])
def test_numbers_of_any_length_as_memory(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_memory(text)
    assert str(caught.value) == f"--memory {text!r} is not a size; write for example 8G or 512M"


def test_what_is_no_literal_but_looks_like_one_is_text() -> None:
    assert parse_constant("x={[]: 1}") == ("x", "{[]: 1}")
    assert parse_constant("x=" + "-" * 100_000 + "1") == ("x", "-" * 100_000 + "1")


@pytest.mark.parametrize("name", ["a=b", "a b", "", "1a", "a-b"])
def test_a_constant_needs_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of an argument"):
        format_constant(name, 1)

"""``--input`` and ``--dim``, and the ranges of dynamic dimensions."""

from __future__ import annotations

import pytest

from convert.errors import InputError
from convert.records import Dim, InputSpec
from convert.specs import DTYPES, format_input, parse_dim, parse_input, settle_dims, shape_at


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("x=float32[N,3,224,224]", InputSpec("x", "float32", ("N", 3, 224, 224))),
        ("ids=int64[N,T]{0..999}", InputSpec("ids", "int64", ("N", "T"), 0, 999)),
        ("t=int32[4]{-5..-2}", InputSpec("t", "int32", (4,), -5, -2)),
        ("t=int32[4]{3..3}", InputSpec("t", "int32", (4,), 3, 3)),
        ("scalar=float64[]", InputSpec("scalar", "float64", ())),
        ("  a b = bool [ seq_len , 2 ] ", InputSpec("a b", "bool", ("seq_len", 2))),
        ("x.1:0=uint8[1]", InputSpec("x.1:0", "uint8", (1,))),
        ("t = int8[2] { -1 .. 1 } ", InputSpec("t", "int8", (2,), -1, 1)),
    ],
)
def test_parse_input(text: str, spec: InputSpec) -> None:
    assert parse_input(text) == spec
    assert parse_input(format_input(spec)) == spec


def test_format_input() -> None:
    assert format_input(InputSpec("ids", "int64", ("N", 8), 0, 9)) == "ids=int64[N,8]{0..9}"
    assert format_input(InputSpec("x", "float32", ())) == "x=float32[]"


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_read(dtype: str) -> None:
    assert parse_input(f"x={dtype}[2]") == InputSpec("x", dtype, (2,))


FORM = (
    " is not of the form 'name=dtype[sizes]'; write for example 'x=float32[N,3,224,224]', where a word is a dynamic "
    "dimension"
)
SIZE = "; a size is a positive number or a word that names a dynamic dimension"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("", FORM),
        ("x", FORM),
        ("x=float32", FORM),
        ("=float32[1]", FORM),
        ("x=[1]", FORM),
        ("x=float32[1]{1}", FORM),
        ("x=float32[1] y=float32[2]", FORM),
        ("x=float32[1]]", FORM),
        (
            "x=double[2]",
            " has the dtype 'double'; allowed are float16, float32, float64, int8, uint8, int16, int32, int64, bool",
        ),
        ("x=int64[2]{5..4}", " has an empty range 5..4; write the smaller number first"),
        ("x=float32[0]", " has the size '0'" + SIZE),
        ("x=float32[-1]", " has the size '-1'" + SIZE),
        ("x=float32[2,]", " has the size ''" + SIZE),
        ("x=float32[2.5]", " has the size '2.5'" + SIZE),
        ("x=float32[2N]", " has the size '2N'" + SIZE),
        ("x=float32[²]", " has the size '²'" + SIZE),
    ],
)
def test_parse_input_refuses(text: str, rest: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_input(text)
    assert str(caught.value) == f"--input {text!r}{rest}"


@pytest.mark.parametrize("text", ["x=float32[2]{0..5}", "x=bool[2]{0..1}", "x=uint8[2]{0..256}", "x=uint8[2]{-1..3}"])
def test_a_range_that_its_dtype_cannot_follow_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--input"):
        parse_input(text)


@pytest.mark.parametrize(
    ("text", "dim"),
    [
        ("N=8", Dim("N", 8, 8, 8)),
        ("N=1..16", Dim("N", 1, 16, 16)),
        ("N=1..4..16", Dim("N", 1, 4, 16)),
        (" seq_len = 2 .. 3 .. 3 ", Dim("seq_len", 2, 3, 3)),
    ],
)
def test_parse_dim(text: str, dim: Dim) -> None:
    assert parse_dim(text) == dim


@pytest.mark.parametrize("text", ["", "N", "N=", "=3", "N=a", "N=-1", "N=1..2..3..4", "1N=3", "N=1.5", "N=1...3"])
def test_parse_dim_refuses_another_form(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_dim(text)
    expected = f"--dim {text!r} is not of the form 'NAME=MIN..OPT..MAX'; write for example 'N=1..4..16'"
    assert str(caught.value) == expected


@pytest.mark.parametrize("text", ["N=0", "N=0..4", "N=4..1", "N=1..5..4", "N=3..2..4"])
def test_parse_dim_refuses_sizes_that_do_not_rise(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_dim(text)
    assert str(caught.value) == f"--dim {text!r} must rise from MIN over OPT to MAX and start at 1 or more"


X = InputSpec("x", "float32", ("N", 3))
IDS = InputSpec("ids", "int64", ("N", "T"))


def test_a_leading_dimension_is_a_batch() -> None:
    assert settle_dims([X], ()) == (Dim("N", 1, 4, 16),)


def test_given_ranges_come_before_known_ones_before_the_batch() -> None:
    known = [Dim("T", 1, 7, 9), Dim("N", 2, 2, 2), Dim("unused", 1, 1, 1)]
    assert settle_dims([X, IDS], [Dim("T", 5, 6, 7)], known) == (Dim("N", 2, 2, 2), Dim("T", 5, 6, 7))
    assert settle_dims([IDS], [], known) == (Dim("N", 2, 2, 2), Dim("T", 1, 7, 9))


def test_without_dynamic_dimensions_there_is_nothing_to_settle() -> None:
    assert settle_dims([InputSpec("x", "float32", (2, 3))], ()) == ()


@pytest.mark.parametrize("inputs", [[IDS], [IDS, InputSpec("t", "int64", ("T",))]])
def test_a_dimension_that_is_no_batch_needs_a_range(inputs: list[InputSpec]) -> None:
    with pytest.raises(InputError) as caught:
        settle_dims(inputs, ())
    assert str(caught.value) == (
        "the dynamic dimension T has no range; say the smallest, usual and largest size with --dim 'T=MIN..OPT..MAX'"
    )


@pytest.mark.parametrize(
    ("inputs", "rest"),
    [([X, IDS], "N, T"), ([InputSpec("x", "float32", (2,))], "none, since every size is fixed")],
)
def test_a_range_without_a_dimension_is_refused(inputs: list[InputSpec], rest: str) -> None:
    with pytest.raises(InputError) as caught:
        settle_dims(inputs, [Dim("n", 1, 2, 3)])
    assert str(caught.value) == f"--dim n names no dynamic dimension of the inputs; these are {rest}"


def test_shape_at() -> None:
    assert shape_at(InputSpec("x", "float32", ("N", 3, "T")), {"N": 5, "T": 7, "other": 1}) == (5, 3, 7)
    assert shape_at(InputSpec("x", "float32", ()), {}) == ()
    with pytest.raises(KeyError, match="N"):
        shape_at(X, {})

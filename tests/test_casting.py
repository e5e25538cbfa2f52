"""Between dtypes nothing wraps and nothing is cut off."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from convert.errors import StageError
from convert.targets.casting import cast_exactly


@pytest.mark.parametrize(
    ("values", "dtype", "wanted"),
    [
        ([2**31 - 1, -(2**31)], "int64", "int32"),
        ([127, -128], "int32", "int8"),
        ([0, 255], "int64", "uint8"),
        ([2**63 - 1], "uint64", "int64"),
        ([0, 1], "int64", "bool"),
        ([True, False], "bool", "int8"),
        ([5], "int8", "int64"),
        ([[1, 2], [3, 4]], "int64", "int32"),
        ([], "int64", "int8"),
        (7, "int64", "int32"),
        ([1.5, math.inf, -math.inf], "float16", "float32"),
        ([1.5, 0.1], "float32", "float64"),
        ([3, -7], "int64", "float32"),
        ([3.0, -7.0], "float32", "int64"),
        ([0.0, 1.0], "float32", "bool"),
    ],
)
def test_what_fits_keeps_its_values_and_shape(values: Any, dtype: str, wanted: str) -> None:
    value = np.array(values, dtype)
    cast = cast_exactly("ids", value, wanted)
    assert cast.dtype == np.dtype(wanted)
    assert cast.shape == value.shape
    assert cast.tolist() == value.tolist()


def test_the_same_dtype_is_no_copy() -> None:
    value = np.array([1, 2], np.int64)
    assert cast_exactly("ids", value, np.int64) is value


def test_a_lower_float_rounds() -> None:
    value = np.array([0.1, math.nan], np.float64)
    np.testing.assert_array_equal(cast_exactly("x", value, "float32"), np.array([0.1, math.nan], np.float32))


@pytest.mark.parametrize(
    ("values", "dtype", "wanted", "outside", "span"),
    [
        ([0, 2**31], "int64", "int32", 2**31, "-2147483648..2147483647"),
        ([-(2**31) - 1, 5], "int64", "int32", -(2**31) - 1, "-2147483648..2147483647"),
        ([-1, 300], "int64", "uint8", -1, "0..255"),
        ([256], "int16", "uint8", 256, "0..255"),
        ([128], "uint8", "int8", 128, "-128..127"),
        ([2**63], "uint64", "int64", 2**63, "-9223372036854775808..9223372036854775807"),
        ([0, 2], "int64", "bool", 2, "0..1"),
        ([-1], "int8", "bool", -1, "0..1"),
    ],
)
def test_an_integer_that_does_not_fit_is_an_error(
    values: list[int], dtype: str, wanted: str, outside: int, span: str
) -> None:
    with pytest.raises(StageError) as caught:
        cast_exactly("ids", np.array(values, dtype), wanted)
    assert caught.value.reason == (
        f"ids holds {outside}, which does not fit the artifact's {wanted} ({span}); "
        f"keep the values in that range or choose a target with {dtype}"
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("values", "dtype", "wanted"),
    [
        # A float is no integer unless it is a whole number in range ...
        ([1.0, 2.5], "float32", "int64"),
        ([math.nan], "float32", "int64"),
        ([math.inf], "float32", "int32"),
        ([3e9], "float32", "int32"),
        ([-1.0], "float32", "uint8"),
        ([0.3], "float32", "bool"),
        # ... and a large integer is no float.
        ([2**24 + 1], "int64", "float32"),
        ([2**53 + 1], "int64", "float64"),
        ([70000], "int64", "float16"),
        # The ends of a range, where a cast and a cast back may both saturate and look the same.
        ([2.0**31], "float32", "int32"),
        ([2.0**63], "float64", "int64"),
        ([2**63 - 1], "int64", "float32"),
        ([2**64 - 1], "uint64", "float64"),
    ],
)
def test_between_integers_and_floats_values_stay_or_it_is_an_error(values: list[Any], dtype: str, wanted: str) -> None:
    with pytest.raises(StageError, match="ids"):
        cast_exactly("ids", np.array(values, dtype), wanted)

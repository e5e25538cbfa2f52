"""The checks of integer artifacts: noise on real data, interface and finiteness everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convert.records import Case, Check
from convert.validators.integers import compare_integer_case

CASE = Case("sample0", "sample", {}, None, "sample0.npz")
SIGNAL = np.asarray([3.0, -4.0, 0.0, 5.0], np.float32)  # root mean square: sqrt(50 / 4)


def check(wanted: Any, got: Any, measured: bool = True, sqnr: float = 20.0) -> Check:
    (found,) = compare_integer_case(CASE, {"y": wanted}, {"y": got}, sqnr, 0.9, measured)
    return found


def test_noise_is_a_share_of_the_signal() -> None:
    found = check(SIGNAL, SIGNAL + np.float32(0.25))
    assert found.figure == pytest.approx(0.25 / np.sqrt(12.5))  # -23.0 dB
    assert found.limit == pytest.approx(0.1)
    assert found.passed
    assert found.rms == pytest.approx(0.25)


def test_too_much_noise_says_how_much() -> None:
    found = check(SIGNAL, SIGNAL + np.float32(0.5))
    assert not found.passed
    assert found.detail == "the signal-to-noise ratio is 17.0 dB, and 20 dB are wanted"
    assert check(SIGNAL, SIGNAL + np.float32(0.5), sqnr=16.0).passed


@pytest.mark.parametrize(
    ("got", "detail"),
    [
        (np.asarray([3.0, -4.0, np.nan, 5.0], np.float32), "1 of 4 elements are not finite, and the source's are"),
        (SIGNAL.astype(np.float64), "dtype float64 instead of float32"),
        (SIGNAL[:3], "shape [3] instead of [4]"),
        (None, "the output is missing"),
    ],
)
@pytest.mark.parametrize("measured", [True, False])
def test_what_fails_on_real_and_on_drawn_values(got: Any, detail: str, measured: bool) -> None:
    found = check(SIGNAL, got, measured)
    assert (found.passed, found.detail) == (False, detail)


def test_drawn_values_may_be_cut_off() -> None:
    assert check(SIGNAL, np.clip(SIGNAL, -1, 1), measured=False).passed
    assert not check(SIGNAL, np.clip(SIGNAL, -1, 1)).passed


def test_where_the_source_is_infinite_the_artifact_need_not_be() -> None:
    assert check(np.asarray([1.0, np.inf], np.float32), np.asarray([1.0, 127.0], np.float32)).passed


def test_an_output_of_zeros_has_to_be_zero() -> None:
    zeros = np.zeros(4, np.float32)
    assert check(zeros, zeros).passed
    found = check(zeros, zeros + np.float32(1e-6))
    assert (found.passed, found.detail) == (False, "the signal-to-noise ratio is no ratio at all, and 20 dB are wanted")


def test_classes_must_agree_in_nine_of_ten() -> None:
    wanted = np.arange(20)
    two, three = wanted.copy(), wanted.copy()
    two[:2], three[:3] = -1, -1
    assert check(wanted, two).passed
    found = check(wanted, three)
    assert (found.passed, found.detail) == (False, "15.0% of the elements differ, and at most 10% may")


def test_an_output_that_the_source_lacks_fails() -> None:
    found = compare_integer_case(CASE, {"y": SIGNAL}, {"y": SIGNAL, "z": SIGNAL}, 20.0, 0.9, True)
    assert [one.passed for one in found] == [True, False]
    assert found[1].detail == "the source has no output z"

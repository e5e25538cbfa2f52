"""Quality of an artifact: figures over batches, and what must never look good."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

from convert.errors import StageError
from convert.quantize.quality import Tally
from convert.records import Quality


def floats(*values: Any) -> Any:
    return np.asarray(values, np.float32)


def quality(wanted: Any, got: Any, samples: int | None = None) -> Quality:
    tally = Tally()
    tally.add({"y": wanted}, {"y": got}, samples or len(wanted))
    (found,) = tally.result()
    return found


def test_exact_figures() -> None:
    found = quality(floats(3, -4, 0, 5), floats(3, -4, 0, 4))
    assert found.sqnr_db == pytest.approx(10 * math.log10(50 / 1))
    assert found.cosine == pytest.approx(45 / math.sqrt(50 * 41))
    assert (found.output, found.samples, found.max_error, found.agreement) == ("y", 4, 1.0, None)


def test_batches_add_up_to_the_whole() -> None:
    wanted = np.random.default_rng(0).standard_normal((10, 4)).astype(np.float32)
    got = wanted + np.random.default_rng(1).standard_normal((10, 4)).astype(np.float32)
    tally = Tally()
    for start in (0, 3, 6, 9):
        tally.add({"y": wanted[start : start + 3]}, {"y": got[start : start + 3]}, min(3, 10 - start))
    (parts,), whole = tally.result(), quality(wanted, got)
    assert parts.sqnr_db == pytest.approx(whole.sqnr_db)
    assert parts.cosine == pytest.approx(whole.cosine)
    assert (parts.samples, parts.max_error, parts.agreement) == (10, whole.max_error, whole.agreement)


def test_every_output_has_its_own_figures_in_the_order_of_the_source() -> None:
    tally = Tally()
    tally.add({"b": floats(1), "a": floats(10)}, {"a": floats(11), "b": floats(1.5)}, 1)
    assert [(one.output, one.max_error) for one in tally.result()] == [("b", 0.5), ("a", 1.0)]
    assert [round(one.sqnr_db, 9) for one in tally.result()] == [round(10 * math.log10(4), 9), 20.0]


def test_without_noise_the_ratio_is_infinite() -> None:
    found = quality(floats(1, 2), floats(1, 2))
    assert (found.sqnr_db, found.max_error) == (math.inf, 0.0)
    assert found.cosine == pytest.approx(1.0)


def test_no_signal() -> None:
    assert quality(floats(0, 0), floats(0, 0)).sqnr_db == math.inf
    assert quality(floats(0, 0), floats(0, 0)).cosine == 1.0
    found = quality(floats(0, 0), floats(0, 1))
    assert (found.sqnr_db, found.cosine) == (-math.inf, 0.0)


def test_sums_are_in_float64() -> None:
    tiny = floats(1e-30, 1e-30)  # whose squares are 0 in float32
    assert quality(tiny, tiny * 2).sqnr_db == pytest.approx(0.0, abs=1e-5)
    half = np.asarray([60000.0, 60000.0], np.float16)  # whose squares overflow
    assert quality(half, half / np.float16(2)).sqnr_db == pytest.approx(10 * math.log10(4))
    assert quality(half, half / np.float16(2)).cosine == pytest.approx(1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_artifact_that_is_not_finite_where_the_source_is_never_looks_good(bad: float) -> None:
    tally = Tally()
    tally.add({"y": floats(1, 2)}, {"y": floats(1, bad)}, 2)
    tally.add({"y": floats(1, 2)}, {"y": floats(1, 2)}, 2)
    (found,) = tally.result()
    assert (found.sqnr_db, found.max_error) == (-math.inf, math.inf)
    assert math.isnan(found.cosine)


def test_where_the_source_is_not_finite_the_artifact_need_not_be() -> None:
    found = quality(floats(3, -math.inf, math.nan), floats(3, -128, 7))
    assert (found.sqnr_db, found.max_error) == (math.inf, 0.0)


def test_a_source_without_a_finite_element_measures_nothing() -> None:
    found = quality(floats(math.nan, math.nan), floats(1, 2))
    assert math.isnan(found.sqnr_db)
    assert math.isnan(found.cosine)
    assert math.isnan(found.max_error)


def test_an_overflow_of_the_sums_meets_no_gate() -> None:
    huge = np.asarray([1e200, 1e200])
    assert not quality(huge, huge / 2).sqnr_db >= 0


def test_agreement_of_the_first_class() -> None:
    wanted = floats([1, 2, 3], [3, 2, 1], [1, 5, 1], [0, 0, 9])
    got = floats([1, 2, 3], [1, 2, 3], [0, 7, 0], [9, 0, 9])  # of equals the first counts: the last differs
    assert quality(wanted, got).agreement == 0.5


def test_scores_with_nan_agree_with_nothing() -> None:
    wanted, got = floats([2, 1], [1, 2]), floats([math.nan, 1], [1, 2])
    assert quality(wanted, got).agreement == 0.5


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 3, 2), (0, 3)])
def test_no_agreement_where_there_are_no_rows_of_scores(shape: tuple[int, ...]) -> None:
    array = np.zeros(shape, np.float32)
    assert quality(array, array, 4).agreement is None


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8", "bool"])
def test_integers_agree_element_by_element(dtype: str) -> None:
    wanted = np.asarray([[0, 1], [1, 1]]).astype(dtype)
    got = np.asarray([[0, 1], [1, 0]]).astype(dtype)
    found = quality(wanted, got)
    assert found.agreement == 0.75
    assert found.sqnr_db == pytest.approx(10 * math.log10(3))
    assert found.max_error == 1.0
    assert quality(wanted, wanted).sqnr_db == math.inf


def test_small_integers_do_not_wrap() -> None:
    found = quality(np.asarray([-128], np.int8), np.asarray([127], np.int8))
    assert found.max_error == 255.0
    found = quality(np.asarray([2**63 - 1], np.int64), np.asarray([2**63 - 2], np.int64))
    assert found.agreement == 0.0


def test_samples_that_fill_up_a_batch_do_not_count() -> None:
    wanted, got = floats([2, 1], [2, 1], [2, 1], [2, 1]), floats([2, 1], [1, 2], [1, 2], [1, 2])
    tally = Tally()
    tally.add({"y": wanted}, {"y": got}, 1, 4)
    (found,) = tally.result()
    assert (found.samples, found.agreement, found.sqnr_db) == (1, 1.0, math.inf)


def test_the_room_of_a_batch_is_that_of_the_batches_before() -> None:
    good, bad = floats([2, 1], [2, 1]), floats([2, 1], [1, 2])
    tally = Tally()
    tally.add({"y": good}, {"y": good}, 2)
    tally.add({"y": good}, {"y": bad}, 1)
    (found,) = tally.result()
    assert (found.samples, found.agreement) == (3, 1.0)


def test_an_axis_that_is_not_of_samples_is_not_cut() -> None:
    wanted, got = floats([2, 1], [2, 1], [2, 1]), floats([2, 1], [1, 2], [1, 2])
    tally = Tally()
    tally.add({"y": wanted}, {"y": got}, 1)  # a model whose three rows are of one sample
    (found,) = tally.result()
    assert found.agreement == pytest.approx(1 / 3)
    tally = Tally()
    tally.add({"y": wanted}, {"y": got}, 1, 2)
    assert tally.result()[0].agreement == pytest.approx(1 / 3)


def test_a_single_number() -> None:
    found = quality(np.asarray(4.0, np.float32), np.asarray(3.0, np.float32), 1)
    assert found.max_error == 1.0
    assert found.sqnr_db == pytest.approx(10 * math.log10(16))


@pytest.mark.parametrize(
    ("actual", "sentence"),
    [
        ({}, "the quality cannot be measured: the artifact has no output y"),
        ({"y": floats(1, 2), "z": floats(1)}, "the quality cannot be measured: the source has no output z"),
        ({"y": floats(1)}, "the quality of output y cannot be measured: shape [1] instead of [2]"),
        (
            {"y": np.asarray([1.0, 2.0])},
            "the quality of output y cannot be measured: dtype float64 instead of float32",
        ),
    ],
)
def test_another_interface_is_refused(actual: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StageError) as caught:
        Tally().add({"y": floats(1, 2)}, actual, 2)
    assert str(caught.value) == sentence


def test_nothing_measured_is_no_result() -> None:
    with pytest.raises(StageError) as caught:
        Tally().result()
    assert str(caught.value) == "there was not one sample to measure the quality on"


def test_memory_does_not_grow_with_the_number_of_batches() -> None:
    def peak(count: int) -> int:
        wanted = np.ones((100, 1000), np.float32)
        tally = Tally()
        tracemalloc.start()
        for _ in range(count):
            tally.add({"y": wanted}, {"y": wanted}, 100)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(20) < 1.2 * peak(2)

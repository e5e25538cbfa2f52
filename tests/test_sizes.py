"""Sizes between minimum and maximum are those that the source accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from convert.cases import odd_sizes
from convert.errors import StageError
from convert.records import Dim, InputSpec
from convert.stages.sizes import accepted_odd_sizes

SPECS = (InputSpec("x", "float32", ("N", "T")),)
DIMS = (Dim("N", 1, 4, 8), Dim("T", 4, 8, 16))


def takes(accept: Callable[[int, int], bool]) -> Callable[[Mapping[str, Any]], Any]:
    def run(feeds: Mapping[str, Any]) -> Any:
        if not accept(*feeds["x"].shape):
            raise StageError("no")
        return feeds

    return run


@pytest.mark.parametrize(
    ("accept", "sizes"),
    [
        (lambda n, t: True, {"N": 3, "T": 7}),
        (lambda n, t: t % 2 == 0, {"N": 3, "T": 6}),
        (lambda n, t: n % 2 == 0 and t % 4 == 0, {"N": 2, "T": 12}),
        (lambda n, t: n != 3 or t != 7, {"N": 3, "T": 9}),
    ],
)
def test_the_best_accepted_sizes_are_taken(accept: Callable[[int, int], bool], sizes: dict[str, int]) -> None:
    assert accepted_odd_sizes(SPECS, DIMS, takes(accept)) == (sizes, [])


def test_a_dimension_without_one_is_named() -> None:
    found, notes = accepted_odd_sizes(SPECS, DIMS, takes(lambda n, t: n in (1, 4, 8)))
    assert found == {"T": 7}
    assert notes == [
        "the source takes none of the sizes [3, 5, 7, 2, 6] of N, so only 1, 4 and 8 are proven",
    ]


def test_odd_sizes_come_before_even_ones_and_near_ones_before_far_ones() -> None:
    assert odd_sizes(Dim("T", 4, 8, 12)) == [7, 9, 5, 11, 6, 10]
    assert odd_sizes(Dim("T", 3, 3, 4)) == [3]

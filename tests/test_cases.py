"""Which inputs an artifact is proven on: shapes, draws and edge values."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from convert.cases import Plan, Spread, draw, left_out, plan_cases, skipped_cases
from convert.records import Artifact, Case, Dim, Golden, InputSpec, Kind

X = InputSpec("x", "float32", ("N", 3))
IDS = InputSpec("ids", "int64", ("N", "T"), 2, 9)
MASK = InputSpec("mask", "bool", ("N", "T"))
N, T = Dim("N", 1, 4, 16), Dim("T", 2, 8, 8)


def summary(plans: list[Plan]) -> list[tuple[str, str, dict[str, int]]]:
    """What matters of the plans, but seeds."""
    return [(plan.name, plan.edge, plan.dims) for plan in plans]


def test_plan_of_a_fixed_shape() -> None:
    assert plan_cases([InputSpec("x", "float16", (2,))], []) == [
        Plan("opt-draw0", "draw", {}, 0),
        Plan("opt-draw1", "draw", {}, 1),
        Plan("opt-draw2", "draw", {}, 4),
        Plan("edge-zeros", "edge", {}, 5, "zeros"),
        Plan("edge-constant", "edge", {}, 5, "constant"),
        Plan("edge-large", "edge", {}, 5, "large"),
        Plan("edge-halves", "edge", {}, 5, "halves"),
    ]


def test_plan_of_one_dynamic_dimension() -> None:
    assert summary(plan_cases([X], [N])) == [
        ("opt-draw0", "", {"N": 4}),
        ("opt-draw1", "", {"N": 4}),
        ("min-draw0", "", {"N": 1}),
        ("max-draw0", "", {"N": 16}),
        ("odd-draw0", "", {"N": 3}),
        ("edge-zeros", "zeros", {"N": 4}),
        ("edge-constant", "constant", {"N": 4}),
        ("edge-large", "large", {"N": 4}),
        ("edge-halves", "halves", {"N": 4}),
    ]


def test_plan_of_two_dynamic_dimensions_and_integers() -> None:
    assert summary(plan_cases([IDS], [N, T])) == [
        ("opt-draw0", "", {"N": 4, "T": 8}),
        ("opt-draw1", "", {"N": 4, "T": 8}),
        ("min-draw0", "", {"N": 1, "T": 2}),
        ("max-draw0", "", {"N": 16, "T": 8}),
        ("odd-draw0", "", {"N": 3, "T": 7}),
        ("odd-N-draw0", "", {"N": 3, "T": 8}),
        ("odd-T-draw0", "", {"N": 4, "T": 7}),
        ("edge-lowest", "lowest", {"N": 4, "T": 8}),
        ("edge-highest", "highest", {"N": 4, "T": 8}),
        ("edge-ends", "ends", {"N": 4, "T": 8}),
    ]


@pytest.mark.parametrize(
    ("dim", "odd"),
    [
        (Dim("N", 1, 4, 16), 3),
        (Dim("N", 1, 8, 8), 7),
        (Dim("N", 1, 3, 16), 5),
        (Dim("N", 2, 4, 6), 3),
        (Dim("N", 1, 2, 4), 3),
        (Dim("N", 2, 2, 5), 3),
        (Dim("N", 3, 3, 5), 4),
        (Dim("N", 1, 3, 3), 2),
        (Dim("N", 1, 2, 2), 1),
    ],
)
def test_the_odd_size_is_near_the_optimum_and_new_where_it_can_be(dim: Dim, odd: int) -> None:
    assert [plan.dims for plan in plan_cases([X], [dim]) if plan.name == "odd-draw0"] == [{"N": odd}]


@pytest.mark.parametrize("dim", [Dim("N", 8, 8, 8), Dim("N", 1, 1, 2)])
def test_without_another_size_there_is_no_odd_case(dim: Dim) -> None:
    assert not [plan for plan in plan_cases([X], [dim]) if plan.name.startswith("odd")]


def test_only_booleans_have_no_edges() -> None:
    assert [plan.name for plan in plan_cases([MASK], [])] == ["opt-draw0", "opt-draw1", "opt-draw2"]


def test_names_are_unique() -> None:
    names = [plan.name for plan in plan_cases([X, IDS, MASK], [N, T])]
    assert len(set(names)) == len(names) == 14


def test_draws_follow_the_seed_the_name_and_the_spread() -> None:
    plan = Plan("max-draw0", "draw", {"N": 2}, 3)
    got = draw(plan, [X], {"x": Spread(10.0, 2.0)})["x"]
    normal = np.random.default_rng([3, zlib.crc32(b"x")]).standard_normal((2, 3))
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, (10.0 + 2.0 * normal).astype(np.float32))


def test_an_input_is_drawn_the_same_whatever_stands_beside_it() -> None:
    plan = Plan("opt-draw0", "draw", {"N": 4, "T": 8}, 0)
    alone, first, last = draw(plan, [IDS], {}), draw(plan, [IDS, X], {}), draw(plan, [X, IDS], {})
    np.testing.assert_array_equal(alone["ids"], first["ids"])
    np.testing.assert_array_equal(first["ids"], last["ids"])
    assert list(last) == ["x", "ids"]


def test_other_seeds_and_other_names_give_other_values() -> None:
    specs = [InputSpec("a", "float32", (8,)), InputSpec("b", "float32", (8,))]
    zero, one = draw(Plan("p", "draw", {}, 0), specs, {}), draw(Plan("p", "draw", {}, 1), specs, {})
    assert not np.array_equal(zero["a"], zero["b"])
    assert not np.array_equal(zero["a"], one["a"])


def test_edges_of_floats() -> None:
    spreads = {"x": Spread(3.0, 2.0)}

    def edge(name: str) -> list[float]:
        values = draw(Plan("e", "edge", {"N": 20}, 5, name), [X], spreads)["x"]
        assert values.shape == (20, 3)
        return sorted(set(values.ravel().tolist()))

    assert edge("zeros") == [0.0]
    assert edge("constant") == [4.0]
    assert edge("large") == [-197.0, 203.0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_have_their_dtype(dtype: str) -> None:
    spec = InputSpec("x", dtype, (2,))
    for name in ("", "zeros", "constant", "large"):
        assert draw(Plan("p", "draw", {}, 0, name), [spec], {})["x"].dtype == dtype


@pytest.mark.parametrize(
    ("spec", "low", "high"),
    [
        (InputSpec("i", "int64", (200,), 2, 9), 2, 9),
        (InputSpec("i", "int8", (200,), -3, -1), -3, -1),
        (InputSpec("i", "uint8", (4000,), 0, 255), 0, 255),
        (InputSpec("i", "int32", (200,)), 0, 1),
    ],
)
def test_integers_reach_both_ends_and_no_further(spec: InputSpec, low: int, high: int) -> None:
    values = draw(Plan("p", "draw", {}, 0), [spec], {})["i"]
    assert (values.dtype, values.min(), values.max()) == (np.dtype(spec.dtype), low, high)
    for edge, wanted in (("lowest", low), ("highest", high)):
        values = draw(Plan("p", "edge", {}, 6, edge), [spec], {})["i"]
        assert values.dtype == np.dtype(spec.dtype)
        assert set(values.tolist()) == {wanted}


def test_an_integer_edge_leaves_floats_drawn() -> None:
    feeds = draw(Plan("p", "edge", {"N": 4, "T": 8}, 6, "lowest"), [X, IDS], {})
    assert len(set(feeds["x"].ravel().tolist())) == 12


def test_a_mask_never_hides_everything() -> None:
    mask = draw(Plan("p", "draw", {"N": 50, "T": 8}, 0), [MASK], {})["mask"]
    assert mask.dtype == np.bool_
    assert mask[:, 0].all()
    assert 0.6 < mask[:, 1:].mean() < 0.9
    assert draw(Plan("p", "draw", {}, 0), [InputSpec("flag", "bool", ())], {})["flag"].shape == ()


def test_only_float16_is_spared_and_only_the_large_edge() -> None:
    names = ["opt-draw0", "edge-large", "edge-zeros", "edge-large2", "branch0"]
    assert skipped_cases("float16", names) == frozenset({"edge-large", "branch0"})
    assert skipped_cases("float16", ["opt-draw0"]) == frozenset()
    assert skipped_cases("float32", names) == frozenset()


@pytest.mark.parametrize("precision", ["int8-dynamic", "int8", "int16x8"])
def test_integers_are_held_to_drawn_and_real_values(precision: str) -> None:
    names = ["opt-draw0", "edge-large", "edge-zeros", "branch0", "sample0"]
    assert skipped_cases(precision, names) == frozenset({"edge-large", "edge-zeros", "branch0"})


def test_only_an_integer_artifact_may_fix_its_sizes() -> None:
    cases = tuple(Case(name, "draw", {"N": size}, 0, "") for name, size in (("opt-draw0", 4), ("min-draw0", 1)))
    golden = Golden(Kind.FACTORY, "", 0, 0, (X,), (Dim("N", 1, 4, 8),), (), cases, "")
    for precision, settings, skipped in (
        ("int8", {"fixed": True}, {"min-draw0"}),
        ("int8", {}, set()),
        ("float32", {"fixed": True}, set()),
    ):
        assert left_out(Artifact("tflite", precision, "r", ("f",), (), settings=settings), golden) == skipped


def test_halves_are_whole_and_half_numbers_with_equals_among_them() -> None:
    values = draw(Plan("edge-halves", "edge", {"N": 16}, 5, "halves"), [X], {})["x"]
    assert values.dtype == np.float32
    assert np.array_equal(values * 2, np.round(values * 2))
    assert {0.5} <= set(np.abs(values - np.trunc(values)).ravel())
    assert values.min() < 0 < values.max()
    assert len(set(values.ravel())) < values.size


def test_ends_stay_within_the_range_and_reach_both() -> None:
    wide = InputSpec("i", "int64", (200,), -(2**40), 2**40)
    values = set(draw(Plan("edge-ends", "edge", {}, 6, "ends"), [wide], {})["i"])
    assert values == {-(2**40), 1 - 2**40, -2, -1, 0, 1, 2, 2**40 - 1, 2**40}
    narrow = InputSpec("i", "uint8", (50,), 7, 8)
    found = draw(Plan("edge-ends", "edge", {}, 6, "ends"), [narrow], {})["i"]
    assert (found.dtype, set(found)) == (np.uint8, {7, 8})


def test_a_scalar_is_drawn_as_an_array_without_axes() -> None:
    specs = [InputSpec("x", "float32", ()), InputSpec("i", "int64", (), 0, 5), InputSpec("m", "bool", ())]
    for plan in plan_cases(specs, []):
        feeds = draw(plan, specs, {})
        assert all(isinstance(value, np.ndarray) and value.shape == () for value in feeds.values())

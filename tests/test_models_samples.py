"""The user's samples: reading them, guessing the inputs from them, and cutting them into cases."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convert.errors import InputError
from convert.models.samples import MOST_SAMPLES, infer_specs, load_samples, split_into_cases
from convert.records import Dim, InputSpec

ROWS = np.arange(20, dtype=np.float32).reshape(10, 2)
N = (Dim("N", 2, 4, 6),)
SPEC = (InputSpec("x", "float32", ("N", 2)),)


def refused(call: Any, *args: Any) -> str:
    """What the call complains about."""
    with pytest.raises(InputError) as caught:
        call(*args)
    return str(caught.value)


def rows_of(cases: list[dict[str, Any]], name: str = "x") -> list[int]:
    """Rows of an input in every case."""
    return [case[name].shape[0] for case in cases]


def test_npz_by_name_and_by_position(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, y=ROWS, x=2 * ROWS)
    samples = load_samples(str(path), ("x", "y"))
    assert isinstance(samples, dict)
    assert list(samples) == ["y", "x"]
    np.testing.assert_array_equal(samples["x"], 2 * ROWS)
    np.savez(path, ROWS, 2 * ROWS)
    assert list(load_samples(str(path), ("x", "y"))) == ["x", "y"]
    np.savez(path, x=np.array([{"a": 1}], object))
    assert refused(load_samples, str(path), ("x",)).endswith("; save plain arrays with numpy.savez")
    np.savez(path, x=np.array(["cat"]))
    assert refused(load_samples, str(path), ("x",)) == f"x in {path} holds <U3; only numbers and booleans can be used"


def test_files_of_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "inputs.pt"
    x, y = torch.ones(3, 2), torch.zeros(3, dtype=torch.int64)
    for value, names in (
        (x, ["x"]),
        ((x, y), ["x", "y"]),
        ([x, y], ["x", "y"]),
        ({"y": y, "x": x}, ["y", "x"]),
    ):
        torch.save(value, path)
        samples = load_samples(str(path), ("x", "y"))
        assert isinstance(samples, dict)
        assert list(samples) == names
        np.testing.assert_array_equal(samples["x"], np.ones((3, 2), np.float32))
    torch.save([{"x": x}, {"x": x + 1}], path)
    listed = load_samples(str(path), ("x",))
    assert isinstance(listed, list)
    assert [float(item["x"][0, 0]) for item in listed] == [1, 2]
    torch.save([(x, y), (x, y)], path)
    assert [list(item) for item in load_samples(str(path), ("x", "y"))] == [["x", "y"], ["x", "y"]]
    torch.save((x, y, x), path)
    assert refused(load_samples, str(path), ("x", "y")) == (
        f"{path} gives 3 arrays without names, but the model takes 2 (x, y); give a dict by input name"
    )
    assert "but the inputs' names are unknown" in refused(load_samples, str(path), ())
    torch.save({"x": 3}, path)
    assert refused(load_samples, str(path), ("x",)) == (
        f"x in {path} is a int and no array; give a tensor or numpy array"
    )
    torch.save({}, path)
    assert refused(load_samples, str(path), ("x",)) == f"{path} gives an empty dict; give an array for every input"


def test_sample_files_run_no_code_without_trust(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    flag, path = tmp_path / "ran", tmp_path / "inputs.pt"

    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(flag),)

    torch.save({"x": Evil()}, path)
    assert refused(load_samples, str(path), ("x",)) == (
        f"{path} would run code when it is loaded (it wants posix.mkdir); if you trust where it comes from, "
        "add --trust-pickle"
    )
    path.write_bytes(pickle.dumps({"x": Evil()}))
    assert "--trust-pickle" in refused(load_samples, str(path), ("x",))
    assert not flag.exists()


def test_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "my_samples_of_this_test.py"
    path.write_text(
        "import numpy as np\n"
        "def one(): return np.ones(3)\n"
        "def endless():\n"
        "    while True: yield {'x': np.ones(3)}\n"
        "def breaks():\n"
        "    yield {'x': np.ones(3)}\n"
        "    raise OSError('disk gone')\n"
        "def nothing(): return []\n"
        "def text(): return 'abc'\n"
        "def deep(): return [[{'x': np.ones(1)}]]\n"
    )
    assert list(load_samples(f"{path}:one", ("x",))) == ["x"]
    assert len(load_samples(f"{path}:endless", ("x",))) == MOST_SAMPLES
    assert refused(load_samples, f"{path}:breaks", ("x",)) == (
        f"{path}:breaks failed while it gave samples: OSError: disk gone"
    )
    assert refused(load_samples, f"{path}:nothing", ("x",)) == f"{path}:nothing gives no samples; give at least one"
    assert refused(load_samples, f"{path}:text", ("x",)) == (
        f"{path}:text gives a str and no arrays by input name; give a dict of them"
    )
    assert refused(load_samples, f"{path}:deep", ("x",)) == (
        f"{path}:deep gives lists within lists; give a list of dicts of arrays"
    )


def test_files_that_hold_no_samples(tmp_path: Path) -> None:
    assert refused(load_samples, str(tmp_path), ("x",)) == (
        f"{tmp_path} is a folder; give a .npz, a .pt or file.py:function with samples"
    )
    assert refused(load_samples, "nope.npz", ("x",)).startswith("there is no file nope.npz; ")
    path = tmp_path / "a.txt"
    path.write_text("1 2 3")
    assert refused(load_samples, str(path), ("x",)) == (
        f"{path} holds no samples (its first bytes are b'1 2 3'); give a .npz, a .pt or file.py:function"
    )
    path.write_bytes(b"PK\x03\x04 cut")
    assert "is a zip file that was cut short or damaged" in refused(load_samples, str(path), ("x",))


def test_inputs_guessed_from_samples() -> None:
    samples: dict[str, Any] = {"x": ROWS, "ids": np.zeros((10, 5), np.int64), "rate": np.float32(2.0) * np.ones(())}
    assert infer_specs(samples) == (
        InputSpec("x", "float32", ("N", 2)),
        InputSpec("ids", "int64", ("N", 5)),
        InputSpec("rate", "float64", ()),
    )
    assert infer_specs([{"x": ROWS}, {"x": ROWS[:3]}]) == SPEC
    assert refused(infer_specs, {"x": ROWS, "y": ROWS[:3]}) == (
        "the samples' first axes differ (x 10, y 3), so they are no common batch; give --input"
    )
    assert refused(infer_specs, [{"x": ROWS}, {"x": np.zeros((4, 3), np.float32)}]) == (
        "the samples of x differ (float32[N,2] and float32[N,3]); give --input and --dim"
    )
    assert refused(infer_specs, [{"x": ROWS}, {"y": ROWS}]) == "the samples have different inputs (x, y and y)"
    assert refused(infer_specs, []) == "there are no samples; give at least one"


def test_a_sample_that_fits_stays_whole_and_a_long_one_is_cut() -> None:
    whole = split_into_cases({"x": ROWS[:5]}, SPEC, N)
    assert rows_of(whole) == [5]
    cut = split_into_cases({"x": ROWS}, SPEC, N)
    assert rows_of(cut) == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate([case["x"] for case in cut]), ROWS)
    assert rows_of(split_into_cases({"x": ROWS[:9]}, SPEC, N)) == [4, 4]
    assert rows_of(split_into_cases({"x": ROWS}, SPEC, N, limit=2)) == [4, 4]
    assert rows_of(split_into_cases([{"x": ROWS[:2]}, {"x": ROWS}, {"x": ROWS}], SPEC, N, limit=3)) == [2, 4, 4]


def test_a_fixed_batch_is_cut_and_other_inputs_stay_whole() -> None:
    specs = (InputSpec("x", "float32", (1, 2)), InputSpec("anchor", "float32", (10,)))
    cases = split_into_cases({"x": ROWS, "anchor": ROWS[:, 0]}, specs, (), limit=3)
    assert [case["x"].tolist() for case in cases] == [[[0, 1]], [[2, 3]], [[4, 5]]]
    assert [case["anchor"].shape for case in cases] == [(10,)] * 3
    pairs = (InputSpec("x", "float32", ("N", 2)), InputSpec("y", "float32", ("N", 2)))
    cases = split_into_cases({"x": ROWS, "y": -ROWS}, pairs, N)
    assert rows_of(cases) == rows_of(cases, "y") == [4, 4, 2]
    np.testing.assert_array_equal(cases[1]["y"], -cases[1]["x"])


def test_samples_that_do_not_fit() -> None:
    end = "; change the samples, --input or --dim"
    assert refused(split_into_cases, {"x": ROWS[:1]}, SPEC, N) == (
        f"the sample of x is [1, 2], but float32[N,2] with N=2..6 is wanted{end}"
    )
    assert refused(split_into_cases, {"x": ROWS[:, :1]}, SPEC, N) == (
        f"the sample of x is [4, 1], but float32[N,2] with N=2..6 is wanted{end}"
    )
    assert refused(split_into_cases, {"x": ROWS[0]}, SPEC, N) == (
        f"the sample of x is [2], but float32[N,2] with N=2..6 is wanted{end}"
    )
    pairs = (*SPEC, InputSpec("y", "float32", ("N",)))
    assert refused(split_into_cases, {"x": ROWS[:3], "y": ROWS[:4, 0]}, pairs, N) == (
        f"the sample of y is [4], but float32[N] with N=2..6, N=3 in the inputs before it is wanted{end}"
    )
    assert refused(split_into_cases, {"x": ROWS[:7], "y": ROWS[:8, 0]}, pairs, N) == (
        "the samples' first axes differ (x 7, y 8), so they cannot be cut into batches together"
    )
    assert refused(split_into_cases, {"z": ROWS}, SPEC, N) == (
        "the samples have z, but the inputs are x; use these names"
    )


def test_types_are_rounded_but_never_wrapped() -> None:
    (case,) = split_into_cases({"x": ROWS[:3].astype(np.float64)}, SPEC, N)
    assert case["x"].dtype == np.float32
    assert refused(split_into_cases, {"x": np.full((3, 2), 1e300)}, SPEC, N) == (
        "the sample of x has values too large for float32; change one of them"
    )
    assert refused(split_into_cases, {"x": np.ones((3, 2), np.int64)}, SPEC, N) == (
        "the sample of x is int64, but float32 is wanted; change one of them"
    )
    ids = (InputSpec("x", "int32", ("N",)),)
    (case,) = split_into_cases({"x": np.array([1, 2], np.int64)}, ids, N)
    assert case["x"].dtype == np.int32
    assert refused(split_into_cases, {"x": np.array([1, 2**31])}, ids, N) == (
        "the sample of x has values that do not fit into int32; change one of them"
    )

"""Samples that do not fit: the sentence that says so, and nothing unpickled, unpacked or passed for a proof."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.fuzz import little_memory, nothing_runs

from convert.errors import InputError
from convert.models.samples import infer_specs, load_samples, split_into_cases
from convert.records import Dim, InputSpec
from convert.stages.finite import finite_values, require_numbers

X = InputSpec("x", "float32", ("N", 3))
IDS = InputSpec("ids", "int64", ("N", "T"), 0, 9)
PAIR = (InputSpec("a", "float32", ("N", 3)), InputSpec("b", "float32", ("N", 5)))
DIMS = (Dim("N", 1, 2, 4), Dim("T", 2, 4, 8))


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def zeros(*shape: int, dtype: str = "float32") -> Any:
    return np.zeros(shape, dtype)


CHANGE = "; change the samples, --input or --dim"


@pytest.mark.parametrize(
    ("specs", "sample", "message"),
    [
        ((X,), {"x": zeros(2, 4)}, "the sample of x is [2, 4], but float32[N,3] with N=1..4 is wanted" + CHANGE),
        ((X,), {"x": zeros(3)}, "the sample of x is [3], but float32[N,3] with N=1..4 is wanted" + CHANGE),
        ((X,), {"x": zeros(0, 3)}, "the sample of x is [0, 3], but float32[N,3] with N=1..4 is wanted" + CHANGE),
        ((X,), {"x": zeros(2, 3, 1)}, "the sample of x is [2, 3, 1], but float32[N,3] with N=1..4 is wanted" + CHANGE),
        (
            (X,),
            {"x": zeros(2, 3, dtype="int64")},
            "the sample of x is int64, but float32 is wanted; change one of them",
        ),
        ((X,), {"x": zeros(2, 3, dtype="bool")}, "the sample of x is bool, but float32 is wanted; change one of them"),
        (
            (X,),
            {"x": np.full((2, 3), 1e300)},
            "the sample of x has values too large for float32; change one of them",
        ),
        (
            (X,),
            {"x": np.asarray([[0, 1, np.nan]], "float32")},
            "the sample of x holds NaN, which proves nothing; leave it out or fill it in",
        ),
        ((X,), {"y": zeros(2, 3)}, "the samples have y, but the inputs are x; use these names"),
        ((X,), {"x": zeros(2, 3), "y": zeros(2, 3)}, "the samples have x, y, but the inputs are x; use these names"),
        (PAIR, {"a": zeros(2, 3)}, "the samples have a, but the inputs are a, b; use these names"),
        (
            PAIR,
            {"a": zeros(2, 3), "b": zeros(3, 5)},
            "the sample of b is [3, 5], but float32[N,5] with N=1..4, N=2 in the inputs before it is wanted" + CHANGE,
        ),
        (
            PAIR,
            {"a": zeros(8, 3), "b": zeros(9, 5)},
            "the samples' first axes differ (a 8, b 9), so they cannot be cut into batches together",
        ),
        (
            (InputSpec("x", "float32", ("N", "N")),),
            {"x": zeros(2, 3)},
            "the sample of x is [2, 3], but float32[N,N] with N=1..4 is wanted" + CHANGE,
        ),
        (
            (IDS,),
            {"ids": zeros(2, 9, dtype="int64")},
            "the sample of ids is [2, 9], but int64[N,T] with N=1..4, T=2..8 is wanted" + CHANGE,
        ),
        (
            (IDS,),
            {"ids": np.full((2, 4), 10)},
            "the sample of ids has the value 10, but --input says 0 to 9; change one of them",
        ),
        (
            (IDS,),
            {"ids": np.asarray([[0, -1, 9]])},
            "the sample of ids has the value -1, but --input says 0 to 9; change one of them",
        ),
        (
            (InputSpec("ids", "int8", (2,)),),
            {"ids": np.asarray([1, 300])},
            "the sample of ids has values that do not fit into int8; change one of them",
        ),
    ],
)
def test_samples_that_do_not_fit(specs: tuple[InputSpec, ...], sample: dict[str, Any], message: str) -> None:
    assert refusal(lambda: split_into_cases(sample, specs, DIMS)) == message


def test_samples_at_the_ends_of_the_range_fit() -> None:
    (case,) = split_into_cases({"ids": np.asarray([[0, 9, 5]])}, (IDS,), DIMS)
    assert case["ids"].tolist() == [[0, 9, 5]]
    (infinite,) = split_into_cases({"x": np.asarray([[-np.inf, 0, 1]], "float32")}, (X,), DIMS)
    assert infinite["x"].tolist() == [[-np.inf, 0, 1]]


def test_samples_without_inputs_given() -> None:
    assert refusal(lambda: infer_specs([{"a": zeros(2, 3), "b": zeros(3, 5)}])) == (
        "the samples' first axes differ (a 2, b 3), so they are no common batch; give --input"
    )
    assert refusal(lambda: infer_specs([{"a": zeros(2, 3)}, {"a": zeros(2, 4)}])) == (
        "the samples of a differ (float32[N,3] and float32[N,4]); give --input and --dim"
    )
    assert refusal(lambda: infer_specs([{"a": zeros(2)}, {"b": zeros(2)}])) == (
        "the samples have different inputs (a, b and b)"
    )
    assert refusal(lambda: infer_specs([])) == "there are no samples; give at least one"


# Files.


def read(path: Path) -> Any:
    return load_samples(str(path), ["x"])


def test_objects_in_an_npz_are_not_unpickled(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "ran",)

    np.savez(tmp_path / "s.npz", x=np.asarray([Evil()], object))
    with nothing_runs(("pickle.find_class",)):
        text = refusal(lambda: read(tmp_path / "s.npz"))
    assert text == (
        f"{tmp_path}/s.npz cannot be read (ValueError: Object arrays cannot be loaded when allow_pickle=False); save "
        "plain arrays with numpy.savez"
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("dtype", ["U3", "S3", "complex64", "datetime64[s]"])
def test_arrays_that_are_no_numbers(tmp_path: Path, dtype: str) -> None:
    np.savez(tmp_path / "s.npz", x=np.zeros(2, dtype))
    assert refusal(lambda: read(tmp_path / "s.npz")) == (
        f"x in {tmp_path}/s.npz holds {np.dtype(dtype)}; only numbers and booleans can be used"
    )


def npy(shape: str, data: bytes = b"") -> bytes:
    """A file of numpy whose header says ``shape``."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def archive(path: Path, data: bytes, packing: int = zipfile.ZIP_STORED) -> Path:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as target:
        target.writestr("x.npy", data)
    path.write_bytes(buffer.getvalue())
    return path


@pytest.mark.parametrize("shape", ["(1152921504606846976,)", "(4611686018427387904, 8)", "(9999999999999999999999,)"])
def test_an_array_that_is_said_to_be_huge(tmp_path: Path, shape: str) -> None:
    path = archive(tmp_path / "s.npz", npy(shape, bytes(64)))
    with little_memory():
        text = refusal(lambda: read(path))
    assert text.startswith(f"{path} cannot be read (")
    assert text.endswith("); save plain arrays with numpy.savez")


def test_an_array_that_unpacks_to_far_more_than_the_file(tmp_path: Path) -> None:
    path = archive(tmp_path / "s.npz", npy("(83886080,)") + bytes(320 << 20), zipfile.ZIP_DEFLATED)
    with little_memory(1 << 28):
        text = refusal(lambda: read(path))
    times = ((320 << 20) + len(npy("(83886080,)"))) // path.stat().st_size
    assert text == (
        f"{path} cannot be samples, since it says that it unpacks to 0.313 GiB, {times} times its own size; save it "
        "again"
    )


def test_many_zeros_are_no_bomb(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "s.npz", x=np.zeros((1 << 20, 4), np.float32))
    assert read(tmp_path / "s.npz")["x"].shape == (1 << 20, 4)


@pytest.mark.parametrize(
    ("data", "rest"),
    [
        (b"", " holds no samples (its first bytes are b''); give a .npz, a .pt or file.py:function"),
        (b"PK\x03\x04", " is a zip file that was cut short or damaged (File is not a zip file); copy it again"),
    ],
)
def test_files_that_hold_nothing(tmp_path: Path, data: bytes, rest: str) -> None:
    (tmp_path / "s.npz").write_bytes(data)
    assert refusal(lambda: read(tmp_path / "s.npz")) == f"{tmp_path}/s.npz{rest}"


def test_a_zip_file_of_something_else(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with zipfile.ZipFile(tmp_path / "s.pt", "w") as target:
        target.writestr("photo.png", b"x")
    assert refusal(lambda: read(tmp_path / "s.pt")) == (
        f"{tmp_path}/s.pt cannot be read: it is a zip file without the part data.pkl; save it with torch.save"
    )


# NaN and infinity must not pass for a proof.


def test_draws_do_not_follow_infinite_samples() -> None:
    values = finite_values([np.asarray([1, np.inf, 3], "float32"), np.asarray([[np.nan, -np.inf, 5]])])
    assert values.tolist() == [1, 3, 5]
    assert finite_values([]).tolist() == finite_values([np.full(3, np.inf)]).tolist() == []


def test_an_output_of_nothing_but_nan_is_refused() -> None:
    nothing, some = np.full((2, 2), np.nan), np.asarray([[np.nan, 1.0]])
    text = refusal(lambda: require_numbers([{"y": some, "z": nothing}, {"y": some, "z": nothing[:1]}]))
    assert text == (
        "output z of the source is NaN everywhere in every case, so nothing can be proven; check the weights, and the "
        "values of the inputs with --samples"
    )
    require_numbers([{"y": nothing}, {"y": some}])
    require_numbers([{"y": np.full(2, np.inf)}, {"y": np.empty(0)}])
    require_numbers([{"y": np.empty(0)}])
    require_numbers([{"y": np.zeros(2, bool)}])


@pytest.mark.toolkit
def test_a_source_of_nan_never_passes(tmp_path: Path) -> None:
    from helpers.command import run

    code = "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x * float('nan')\n"
    (tmp_path / "net.py").write_text(code, encoding="utf-8")
    done = run("net.py:Net", "-t", "onnx", "-q", "--input", "x=float32[N,8]", cwd=tmp_path)
    assert (done.code, done.stdout) == (2, "")
    assert "of the source is NaN everywhere in every case, so nothing can be proven" in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.py"]

"""The user's data as feeds: every form of it, batches, what is wrong with it, and how much memory it takes."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.command import run
from helpers.full_run import DIGITS

from convert.errors import InputError
from convert.quantize import tables
from convert.quantize.data import Data, open_data, store, stored
from convert.records import Dim, Golden, InputSpec, Kind

X = np.arange(20, dtype=np.float32).reshape(10, 2)
IDS = np.arange(30, dtype=np.int64).reshape(10, 3)
LABELS = np.arange(10) * 10
SPEC = InputSpec("x", "float32", ("N", 2))
PAIR = (SPEC, InputSpec("ids", "int64", ("N", 3)))


def golden(*specs: InputSpec, n: int = 4) -> Golden:
    """An interface whose batch is usually ``n``."""
    dims = (Dim("N", 1, n, 16),) if any("N" in spec.shape for spec in specs) else ()
    return Golden(Kind.EXPORTED, "m", 0, 0, specs, dims, (), (), "")


def opened(text: str | Path, *specs: InputSpec, **more: Any) -> Data:
    return open_data(str(text), golden(*(specs or (SPEC,)), n=more.pop("n", 4)), **more)


def rows(data: Data) -> list[list[float]]:
    """The first number of every row of ``x`` in every batch."""
    return [feeds["x"][:, 0].tolist() for feeds in data]


def refused(text: str | Path, *specs: InputSpec, **more: Any) -> str:
    """What is said when the data are read, without their folder."""
    with pytest.raises(InputError) as caught:
        opened(text, *specs, **more).check()
    return str(caught.value).replace(f"{text}", Path(text).name)


def saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


FULL = [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18, 16, 18]]


@pytest.fixture
def user(tmp_path: Path) -> Callable[[str, str], str]:
    """Writes a file of the user's and names a function in it; the module is forgotten afterwards."""

    def write(code: str, name: str = "data") -> str:
        path = tmp_path / f"user_{abs(hash((code, str(tmp_path))))}.py"
        path.write_text("import numpy as np\nX = np.arange(20, dtype=np.float32).reshape(10, 2)\n" + code)
        return f"{path}:{name}"

    return write


# Forms


def test_npz_by_name_with_labels(tmp_path: Path) -> None:
    data = opened(saved(tmp_path / "a.npz", ids=IDS, y=LABELS, x=X), *PAIR)
    found = list(data.batches())
    assert [list(batch.feeds) for batch in found] == [["x", "ids"]] * 3
    assert np.concatenate([b.feeds["ids"][: b.samples] for b in found]).tolist() == IDS.tolist()
    assert [batch.labels.tolist() for batch in found] == [[0, 10, 20, 30], [40, 50, 60, 70], [80, 90]]
    assert [batch.samples for batch in found] == [4, 4, 2]
    assert (data.samples, data.random) == (10, False)


def test_npz_without_names_is_in_the_order_of_the_inputs(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X, IDS)
    feeds = next(iter(opened(tmp_path / "a.npz", *PAIR)))
    assert (feeds["x"].tolist(), feeds["ids"].tolist()) == (X[:4].tolist(), IDS[:4].tolist())


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("form", [".npz", "packed.npz", ".npy", ".pt"])
def test_files_of_arrays(tmp_path: Path, form: str, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CHUNK", 24)  # three rows
    path, array = tmp_path / f"a{form}", np.array(X, order=order)  # type: ignore[call-overload]
    if form == ".npy":
        np.save(path, array)
    elif form == ".pt":
        torch.save({"x": torch.from_numpy(array), "y": torch.arange(10)}, path)
    else:
        (np.savez_compressed if "packed" in form else np.savez)(path, x=array)
    assert rows(opened(path)) == FULL


@pytest.mark.parametrize(
    "value",
    [
        torch.from_numpy(X),
        (torch.from_numpy(X), torch.arange(10)),
        [torch.from_numpy(row) for row in X],
        [(torch.from_numpy(row), 1) for row in X],
        [{"x": torch.from_numpy(X[:3])}, {"x": torch.from_numpy(X[3:])}],
        torch.from_numpy(X).double(),
    ],
)
def test_saved_by_torch(tmp_path: Path, value: Any) -> None:
    torch.save(value, tmp_path / "a.pt")
    assert rows(opened(tmp_path / "a.pt")) == FULL


@pytest.mark.parametrize(
    ("code", "labels"),
    [
        ("def data(): return X", None),
        ("def data(): return {'x': X, 'y': np.arange(10)}", [0, 1, 2, 3]),
        ("def data(): yield from X", None),
        ("def data(): yield X[:1]; yield X[1:7]; yield {'x': X[7:]}", None),
        ("def data(): return [[row, int(row[0])] for row in X]", [0, 2, 4, 6]),
        ("def data(): return [(X[:5], np.arange(5)), (X[5:], np.arange(5, 10))]", [0, 1, 2, 3]),
        ("def data(): return [(row, np.zeros((1, 2))) for row in X]", [[[0, 0]]] * 4),
        ("class data:\n def __len__(self): return 10\n def __getitem__(self, i): return X[i], i", [0, 1, 2, 3]),
        (
            "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
            "def data(): return DataLoader(TensorDataset(torch.from_numpy(X), torch.arange(10)), batch_size=3)",
            [0, 1, 2, 3],
        ),
        ("def data(): return [{'x': row, 'y': 'ab'} for row in X]", ["ab"] * 4),
    ],
)
def test_functions(user: Callable[..., str], code: str, labels: Any) -> None:
    data = opened(user(code))
    assert rows(data) == FULL
    first = next(data.batches())
    assert (first.labels if labels is None else first.labels.tolist()) == labels


def test_labels_that_make_no_array_and_several_labels(user: Callable[..., str]) -> None:
    code = "def data(): return [(row, {'boxes': np.zeros(i)}, i) for i, row in enumerate(X)]"
    labels = next(opened(user(code)).batches()).labels
    assert [one["boxes"].shape for one in labels[0]] == [(0,), (1,), (2,), (3,)]
    assert labels[1].tolist() == [0, 1, 2, 3]


def test_labels_of_a_loader_come_apart(user: Callable[..., str]) -> None:
    code = "def data(): return [(X, {'a': np.arange(10), 'b': np.arange(10) + 1})]"
    last = list(opened(user(code)).batches())[-1]
    assert last.labels == [{"a": 8, "b": 9}, {"a": 9, "b": 10}]


def test_what_is_shuffled_is_shuffled_alike(user: Callable[..., str]) -> None:
    code = (
        "import torch\nfrom torch.utils.data import DataLoader\n"
        "def data(): return DataLoader(torch.from_numpy(X), batch_size=1, shuffle=True)"
    )
    data = opened(user(code))
    first = rows(data)
    assert rows(data) == first != FULL
    assert opened(user(code)).key == data.key


def test_data_that_change_are_refused(user: Callable[..., str]) -> None:
    data = opened(user("count = iter(range(99))\ndef data(): return X + next(count)"))
    data.check()
    with pytest.raises(InputError, match="gives other samples each time it is read"):
        data.check()


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Four images of one colour in two folders, and other files."""
    image = pytest.importorskip("PIL.Image")
    for place, name in enumerate(("dog/b.png", "cat/z.jpg", "cat/a.png", "dog/A.PNG")):
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image.new("L", (2, 2), 10 * place).save(path)
    (tmp_path / "images" / "cat" / "notes.txt").touch()
    return tmp_path / "images"


def test_a_folder_of_images(images: Path, user: Callable[..., str]) -> None:
    code = "def data(image):\n assert image.mode == 'RGB'\n return np.float32([image.getpixel((0, 0))[0], 0])"
    data = opened(images, preprocess=user(code))
    (batch,) = data.batches()
    assert batch.feeds["x"][:, 0].tolist() == [20, 10, 30, 0]  # cat/a cat/z dog/A dog/b
    assert batch.labels.tolist() == [0, 0, 1, 1]
    (images / "cat" / "a.png").rename(images / "a.png")  # no folder of its own, so there are no classes
    (batch,) = data.batches()
    assert (batch.feeds["x"][:, 0].tolist(), batch.labels) == ([20, 10, 30, 0], None)


def test_a_preprocess_that_wants_paths_needs_no_pillow(
    images: Path, user: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    code = "def data(path): return {'x': np.float32([len(path.read_bytes()) > 0, 0])}"
    assert rows(opened(images, preprocess=user(code))) == [[1, 1, 1, 1]]
    said = refused(images, preprocess=user("def data(image): return X"))
    assert said.endswith(
        ":data takes images as Pillow opens them, and Pillow is not installed; install it, or call the first argument "
        "of the function path to get the path of each image"
    )


def test_wrong_images(images: Path, user: Callable[..., str], tmp_path: Path) -> None:
    assert refused(images) == "images is a folder; say how its images become inputs with --preprocess file.py:function"
    assert "failed on" in refused(images, preprocess=user("def data(image): return 1 / 0"))
    (images / "cat" / "b.png").write_bytes(b"no image")
    assert "cat/b.png cannot be read as an image (UnidentifiedImageError" in refused(
        images, preprocess=user("def data(image): return X[0]")
    )
    (tmp_path / "none").mkdir()
    assert refused(tmp_path / "none", preprocess=user("def data(image): return X")).startswith(
        "none has no images in it; allowed are .bmp, .gif, .jpeg"
    )


def test_random_data_are_drawn_and_say_so() -> None:
    data = opened("random", *PAIR, n=8)
    assert (data.random, data.samples) == (True, 128)
    assert len({feeds["x"].tobytes() for feeds in data}) == 16
    assert opened("random", *PAIR, n=8).key == data.key
    assert opened("random", limit=10).samples == 10


# Batches


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [(None, FULL), (5, [[0, 2, 4, 6], [8, 8, 8, 8]]), (4, [[0, 2, 4, 6]]), (1, [[0, 0, 0, 0]]), (99, FULL)],
)
def test_the_first_samples_only(tmp_path: Path, limit: int | None, wanted: list[list[float]]) -> None:
    data = opened(saved(tmp_path / "a.npz", x=X), limit=limit)
    assert rows(data) == wanted
    assert data.samples == min(10, limit or 10)


def test_a_function_without_end_is_read_no_further_than_asked(user: Callable[..., str]) -> None:
    code = "def data():\n for i in range(6): yield X[i]\n raise AssertionError('read too far')"
    assert opened(user(code), limit=6).samples == 6


def test_fixed_sizes_and_whole_batches(tmp_path: Path) -> None:
    fixed = InputSpec("x", "float32", (5, 2))
    np.save(tmp_path / "a.npy", X)
    assert [feeds["x"].shape for feeds in opened(tmp_path / "a.npy", fixed)] == [(5, 2), (5, 2)]
    np.save(tmp_path / "b.npy", X.reshape(2, 5, 2))
    assert [feeds["x"].tolist() for feeds in opened(tmp_path / "b.npy", fixed)] == [X[:5].tolist(), X[5:].tolist()]


def test_inputs_without_a_common_axis_stay_whole(tmp_path: Path, user: Callable[..., str]) -> None:
    specs = SPEC, InputSpec("scale", "float32", ())
    path = saved(
        tmp_path / "a.npz", x=np.stack([X[:4], X[4:8]]), scale=np.array([1, 2], np.float32), y=np.array([7, 8])
    )
    found = list(opened(path, *specs).batches())
    assert [batch.feeds["x"].tolist() for batch in found] == [X[:4].tolist(), X[4:8].tolist()]
    assert [(batch.feeds["scale"].tolist(), batch.labels.tolist(), batch.samples) for batch in found] == [
        (1.0, [7], 1),
        (2.0, [8], 1),
    ]
    code = "def data(): return [(X[:4], np.float32(3), 'label')]"
    (batch,) = opened(user(code), *specs).batches()
    assert (batch.feeds["scale"].tolist(), batch.labels.tolist()) == (3.0, ["label"])


def test_the_key_is_of_content_and_settings(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npz", x=X)
    keys = [
        opened(path).key,
        opened(path, n=5).key,
        opened(path, limit=9).key,
        opened(saved(tmp_path / "b.npz", x=X + 1)).key,
        opened(saved(tmp_path / "c.npz", x=X[::-1])).key,
        opened(saved(tmp_path / "e.npz", x=np.concatenate([X, X[8:]]))).key,  # as the filled-up last batch
    ]
    assert len(set(keys)) == len(keys)
    np.savez_compressed(tmp_path / "d.npz", x=X.astype(np.float64), y=LABELS)
    assert opened(tmp_path / "d.npz").key == keys[0]


# What is wrong with it

BAD = X.copy()
BAD[7, 1] = np.nan


@pytest.mark.parametrize(
    ("arrays", "specs", "said"),
    [
        (
            {"x": X.T},
            (),
            "x in a.npz has the shape [2, 10], which does not fit the inputs 'x=float32[N,2]' at N=4; every size but "
            "the number of samples must be the one there",
        ),
        ({"x": X[:, 0]}, (), "x in a.npz has the shape [10], which does not fit the inputs"),
        ({"x": X.astype(np.uint8)}, (), "x in a.npz is uint8, but the model takes float32; change one of them"),
        ({"x": np.where(X == 5, -np.inf, X)}, (), "x in a.npz holds infinity (first at 2, counted from 0"),
        ({"x": X.astype(np.float64) * 1e300}, (), "x in a.npz has values too large for float32; change one of them"),
        ({"x": X, "ids": IDS.astype(np.float32)}, PAIR, "ids in a.npz is float32, but the model takes int64"),
        ({"x": X, "ids": np.uint64(2**63) + IDS.astype(np.uint64)}, PAIR, "ids in a.npz has values that do not fit"),
        (
            {"x": BAD},
            (),
            "x in a.npz holds NaN (first at 7, counted from 0 along the first axis of all); no range of integers holds "
            "that, so take such samples out",
        ),
        ({"x": X[:0]}, (), "a.npz holds no sample; give at least one"),
        ({}, (), "a.npz has nothing, but the model takes x; give an array under each of these names"),
        ({"x": X}, PAIR, "a.npz has x, but the model takes x, ids; give an array under each of these names"),
        ({"arr_0": X}, PAIR, "a.npz gives 1 array without names, but the model takes 2 (x, ids); give all of them"),
        ({"labels": LABELS}, (), "a.npz has labels, but the model takes x; give an array under each of these names"),
        (
            {"x": X, "ids": IDS[:9]},
            PAIR,
            "the arrays in a.npz have different numbers of samples (x 10, ids 9); give as many of each",
        ),
        ({"x": np.float32(1)}, (), "x in a.npz is a single number; its first axis must count samples"),
        ({"x": X.astype("U")}, (), "x in a.npz holds <U32; only numbers and booleans can be used"),
    ],
)
def test_wrong_arrays(tmp_path: Path, arrays: dict[str, Any], specs: tuple[InputSpec, ...], said: str) -> None:
    path = tmp_path / "a.npz"
    saved(path, **arrays)
    assert refused(path, *specs).startswith(said)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([print, None], dtype=object))
    np.save(tmp_path / "a.npy", np.array([print, None], dtype=object))
    for name in ("a.npz", "a.npy"):
        assert refused(tmp_path / name).startswith(f"x in {name} holds object; only numbers, booleans and texts")
    torch.save({"x": X, "f": print}, tmp_path / "a.pt")
    assert "would run code when it is loaded" in refused(tmp_path / "a.pt")


def test_damaged_files(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npz", x=X, y=LABELS)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    assert refused(path).startswith("a.npz is a zip file that was cut short or damaged")
    whole = saved(path, x=np.tile(X, (1000, 1))).read_bytes()
    at = whole.rindex(X[5:8].tobytes())
    path.write_bytes(whole[:at] + b"\1" + whole[at + 1 :])
    assert refused(path).startswith("a.npz is damaged at x (Bad CRC-32")
    np.save(tmp_path / "a.npy", X)
    short = (tmp_path / "a.npy").read_bytes()[:-8]
    (tmp_path / "a.npy").write_bytes(short)
    assert refused(tmp_path / "a.npy") == "a.npy was cut short: 8 bytes of x are missing; copy it again"
    (tmp_path / "a.npy").write_bytes(short[:40])
    assert refused(tmp_path / "a.npy").startswith("x in a.npy cannot be read (")


def test_a_header_that_lies_takes_no_memory(tmp_path: Path) -> None:
    with (tmp_path / "a.npy").open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": (2, 1 << 40)})
    assert refused(tmp_path / "a.npy").startswith("one sample of x in a.npy has 4.1e+03 GiB (its shape is [2, ")


def test_an_archive_that_unpacks_absurdly_is_not_read(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((1 << 26, 2), np.float32))
    assert refused(tmp_path / "a.npz").startswith("a.npz is not read: it says that it unpacks to 0.5 GiB, ")


def test_other_files(tmp_path: Path) -> None:
    for name, content, said in (
        ("a.csv", b"1,2", "a.csv holds no data (its first bytes are b'1,2'); give a .npz, a .npy, a .pt, a folder of"),
        ("empty", b"", "empty is empty; give a .npz"),
    ):
        (tmp_path / name).write_bytes(content)
        assert refused(tmp_path / name).startswith(said)
    assert refused(tmp_path / "no.npz").startswith("there is no file no.npz; give a .npz")
    np.save(tmp_path / "a.npy", X)
    assert refused(tmp_path / "a.npy", *PAIR).startswith("a.npy is one array, but the model takes 2 (x, ids); give a")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def data(): return 1", "gives a int and no samples; give arrays or something to iterate"),
        ("def data(): return [1]", "gives a int; give tensors, dicts of them by input name, or tuples"),
        ("def data(): return [([1.0, 2.0], 3)]", "is a list and no array; give a tensor or numpy array"),
        ("def data(): return [{'y': 3}]", "has y, but the model takes x"),
        ("import torch\ndef data(): return [torch.eye(2).to_sparse()]", "is a tensor that numpy cannot hold"),
        ("def data(): return []", "holds no sample; give at least one"),
        ("def data(): yield X[0]; raise RuntimeError('disk gone')", "failed while it gave samples: RuntimeError: disk"),
        ("def data(): import sys; yield X[0]; sys.exit(3)", "failed while it gave samples: SystemExit: 3"),
        ("def data(): return [X[0], X]", None),
        ("def data(): return [X[None]]", "has the shape [1, 10, 2], which does not fit the inputs"),
        ("other = 1", "has no data; it has"),
    ],
)
def test_wrong_functions(user: Callable[..., str], code: str, said: str | None) -> None:
    text = user(code)
    if said is None:
        assert opened(text).samples == 11
        return
    assert said in refused(text)


def test_data_are_closed_while_their_error_is_still_held(user: Callable[..., str], tmp_path: Path) -> None:
    """A traceback keeps every generator of the way alive; files and loaders must not wait for it."""
    mark = tmp_path / "closed"
    text = user(f"""
def data():
    try:
        yield X[0]
        yield X[None]
    finally:
        open({str(mark)!r}, "w").close()
""")
    with pytest.raises(InputError) as caught:
        opened(text).check()
    assert caught.value.__traceback__ is not None
    assert mark.exists()


def test_labels_are_looked_at_only_where_they_are_wanted(user: Callable[..., str]) -> None:
    data = opened(user("def data(): return [(X, np.arange(3))]"))
    data.check()
    with pytest.raises(InputError, match="gives 3 labels to 10 samples; give one label to each sample"):
        list(data.batches())


# Memory and disk


@pytest.mark.parametrize("packed", [False, True])
def test_memory_does_not_grow_with_the_samples(tmp_path: Path, packed: bool) -> None:
    spec, peaks = InputSpec("x", "float32", ("N", 1024)), []
    for samples in (1000, 10_000):
        values = np.zeros((samples, 1024), np.float32)
        values[:, 0] = np.arange(samples)
        (np.savez_compressed if packed else np.savez)(tmp_path / "a.npz", x=values)
        if packed and samples == 10_000:
            values[:, ::7] = 1.5  # less packed than what is refused as absurd
            np.savez_compressed(tmp_path / "a.npz", x=values)
        del values
        data = opened(tmp_path / "a.npz", spec, n=8)
        tracemalloc.start()
        data.check()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert data.samples == samples
    assert peaks[1] < 1.2 * peaks[0] < 10 * tables.CHUNK  # the file has 39 MiB


def test_what_is_stored_is_the_same(tmp_path: Path, user: Callable[..., str]) -> None:
    code = (
        "calls = []\ndef data():\n calls.append(1)\n assert len(calls) == 1\n"
        " return [(row, np.int64([7])[:0], i) for i, row in enumerate(X)]"
    )
    data = opened(user(code))
    kept = store(data, tmp_path / "kept", labels=True)
    assert rows(kept) == rows(kept) == FULL
    again = stored(tmp_path / "kept")
    assert (again.key, again.samples, again.random, again.name) == (data.key, 10, False, data.name)
    assert [batch.labels[1].tolist() for batch in again.batches()][-1] == [8, 9]
    feeds = next(iter(again))
    feeds["x"][0] = 1  # as any array
    assert store(opened("random", limit=4), tmp_path / "drawn").random
    assert next(stored(tmp_path / "drawn").batches()).labels is None


def test_a_folder_that_only_looks_stored_is_never_unpickled(tmp_path: Path) -> None:
    store(opened(saved(tmp_path / "a.npz", x=X)), tmp_path / "kept")
    assert refused(tmp_path / "kept") == (
        "kept is a folder; say how its images become inputs with --preprocess file.py:function"
    )


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = iter([1 << 40, 1 << 30])
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("", (), {"free": next(free)}))
    with pytest.raises(InputError, match=r"1 GiB left for .*a.npz, 4 samples of which were stored; use fewer with"):
        store(opened(saved(tmp_path / "a.npz", x=X)), tmp_path / "kept")


def test_stored_data_need_numpy_alone(tmp_path: Path) -> None:
    store(opened(saved(tmp_path / "a.npz", x=X)), tmp_path / "kept")
    code = (
        "import sys; from pathlib import Path; from convert.quantize.data import stored\n"
        f"data = stored(Path({str(tmp_path / 'kept')!r}))\n"
        "assert sum(len(feeds['x']) for feeds in data) == 12\n"
        "print([name for name in ('torch', 'PIL') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


@pytest.mark.toolkit
def test_wrong_data_end_a_run_before_anything_is_built(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npz", picture=np.zeros((8, 1, 8, 8), np.float32))
    words = ("--target", "tflite", "--precision", "int8", "--calibration", path, "--out", tmp_path / "out")
    done = run(DIGITS / "digits.pt2", *words, cwd=tmp_path)
    assert done.code == 2
    said = f"convert: {path} has picture, but the model takes image; give an array under each of these names"
    assert done.last_line == said
    assert not (tmp_path / "out").exists()

"""Any bytes as a model or as samples: told what they are, or refused in one sentence; nothing runs or explodes."""

from __future__ import annotations

import io
import json
import pickle
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.full_run import DIGITS
from helpers.fuzz import damaged, fuzz, little_memory, nothing_runs, require_sentence
from hypothesis import given
from hypothesis import strategies as st

from convert.errors import InputError
from convert.models import pickles, pt2
from convert.models.detect import detect
from convert.records import Kind

EVIL = b"\x80\x02cposix\nmkdir\nX\x04\x00\x00\x00evil\x85R."
PLAIN = pickle.dumps({"a": [1, 2.5, "text"], "b": (None, True)}, protocol=4)
ONNX = b"\x08\x08\x12\x04test\x3a\x0d\x0a\x03\x0a\x01x\x12\x01g\x62\x03\x0a\x01y"
TENSORS = struct.pack("<Q", 64) + b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'.ljust(64) + bytes(8)


def zipped(parts: dict[str, bytes], packing: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def arrays() -> bytes:
    """Samples of numpy."""
    buffer = io.BytesIO()
    np.savez(buffer, x=np.ones((4, 3), np.float32), y=np.arange(4))
    return buffer.getvalue()


MODEL = json.dumps({"graph": {"nodes": [{"target": "torch.ops.aten.relu.default", "inputs": []}]}}).encode()
FILES = (
    PLAIN,
    EVIL,
    pickles.TORCH_MAGIC + b"\x80\x02M\xe9\x03." + b"\x80\x02}q\x00." + b"\x80\x02}q\x00X\x01\x00\x00\x00wK\x01s.",
    zipped({"m/data.pkl": PLAIN, "m/data/0": bytes(32), "m/version": b"3"}),
    zipped({"m/data.pkl": EVIL, "m/version": b"3"}, zipfile.ZIP_DEFLATED),
    zipped({"m/constants.pkl": PLAIN, "m/code/a.py": b"pass", "m/data.pkl": PLAIN}),
    zipped({"m/archive_format": b"pt2", "m/models/model.json": MODEL, "m/data/weights/w": bytes(16)}),
    zipped({"serialized_exported_program.json": MODEL, "version": b"8.1"}),
    arrays(),
    ONNX,
    TENSORS,
    b"<!DOCTYPE html><html><body>404</body></html>",
    b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    b"import torch\n\n\ndef make():\n    return torch.nn.Linear(1, 1)\n",
    b"\x1f\x8b\x08\x00" + bytes(20),
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each example is written."""
    return tmp_path_factory.mktemp("fuzz") / "file.bin"


def told(path: Path, data: bytes, trust: bool = False) -> Kind | None:
    """What the file is taken for; None where it is refused, as it must be in one sentence."""
    path.write_bytes(data)
    begun = time.monotonic()
    try:
        with nothing_runs():
            return detect(str(path), trust_pickle=trust).kind
    except InputError as error:
        require_sentence(error, 3000)
        return None
    finally:
        assert time.monotonic() - begun < 5


def test_the_files_are_what_they_seem(file: Path) -> None:
    kinds = [told(file, data, trust=True) for data in FILES]
    assert kinds[:2] == [Kind.PICKLE, Kind.PICKLE]
    assert kinds[5:8] == [Kind.TORCHSCRIPT, Kind.EXPORTED, Kind.EXPORTED]
    assert kinds[9] is Kind.ONNX
    assert [told(file, data) for data in FILES[:2]] == [None, None]


@fuzz(500)
@given(
    st.binary(max_size=400),
    st.sampled_from([b"", b"PK\x03\x04", b"\x80\x04", b"\x80\x02", b"\x08\x08", pickles.TORCH_MAGIC]),
)
def test_any_bytes(file: Path, data: bytes, start: bytes) -> None:
    with little_memory():
        told(file, start + data, trust=True)


@fuzz(1500)
@given(damaged(FILES))
def test_damaged_files(file: Path, data: bytes) -> None:
    with little_memory():
        if told(file, data) is Kind.PICKLE:
            raise AssertionError("a pickle was accepted without trust")


@fuzz(60)
@given(damaged(tuple((DIGITS / name).read_bytes() for name in ("digits.pt2", "digits_script.pt", "weights.pt"))))
def test_damaged_models_of_torch(file: Path, data: bytes) -> None:
    with little_memory():
        told(file, data)


@fuzz(200)
@given(st.binary(max_size=60))
def test_whatever_follows_it_code_in_a_weight_is_seen(after: bytes) -> None:
    """The unpickler runs what stands before the place where it breaks."""
    for start in (EVIL[:-1], pickles.TORCH_MAGIC + EVIL[:-1], pickles.TORCH_MAGIC + b"\x80\x02N." + EVIL[:-1]):
        assert pt2._pickle_problem(start + after) == "is a pickle that would import posix.mkdir" or (
            pt2._pickle_problem(start + after).startswith("is a pickle that would import posix.mkdir, ")
        )


@fuzz(400)
@given(damaged((MODEL, EVIL, PLAIN, *FILES[2:8])))
def test_a_part_of_a_program_is_judged_whatever_it_is(data: bytes) -> None:
    with nothing_runs(), little_memory():
        assert isinstance(pt2._problem("m/data/weights/w", lambda _: data), str)


def read_samples(path: Path) -> object:
    from convert.models.samples import load_samples

    return load_samples(str(path), ["x", "y"])


def read_pickle(path: Path) -> object:
    from convert.models.unpickle import read

    return read(str(path), trust=False)


def open_program(path: Path) -> object:
    from convert.models.exported import open_program as product

    return product(str(path), trust_pickle=False)


@pytest.mark.parametrize("reader", [read_samples, read_pickle, open_program], ids=["samples", "pickle", "program"])
@pytest.mark.filterwarnings("ignore")
@fuzz(120)
@given(data=damaged((*FILES[:9], arrays(), arrays(), EVIL)))
def test_damaged_files_are_read_or_refused(file: Path, reader: Callable[[Path], object], data: bytes) -> None:
    pytest.importorskip("torch")
    file.write_bytes(data)
    try:
        with nothing_runs(("os.mkdir", "os.system", "subprocess.Popen")):
            reader(file)
    except InputError as error:
        require_sentence(error)
    assert not Path("evil").exists()


# What fuzzing has found, once each, and bombs by hand.


def refusal(path: Path, data: bytes, trust: bool = False) -> str:
    path.write_bytes(data)
    with little_memory(1 << 28), pytest.raises(InputError) as caught:
        detect(str(path), trust_pickle=trust)
    return str(caught.value).removeprefix(f"{path} ")


@pytest.mark.parametrize("data", [b"\x08", b"\x08\x80", b"\x08\xff\xff"])
def test_the_first_bytes_of_an_onnx_file_alone(file: Path, data: bytes) -> None:
    assert refusal(file, data).startswith("is not a model that is known here (its first bytes are ")


@pytest.mark.parametrize("size", [1 << 40, (1 << 63) - 1])
def test_a_string_that_is_said_to_be_huge(file: Path, size: int) -> None:
    text = refusal(file, b"\x80\x04\x8e" + size.to_bytes(8, "little") + b"x", trust=True)
    assert text == (
        f"cannot be read: the pickle inside is broken (expected {size} bytes in a bytes8, but only 1 remain); save the "
        "model again"
    )


def test_a_header_that_is_said_to_be_huge(file: Path) -> None:
    assert refusal(file, struct.pack("<Q", 1 << 60) + b'{"w": 1}').startswith("is not a model that is known here")


def test_an_onnx_graph_that_is_said_to_be_huge(file: Path) -> None:
    data = b"\x08\x08\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(20)
    assert refusal(file, data) == ("cannot be read: it is an ONNX file that was cut short; export or download it again")


def test_a_number_without_an_end_in_an_onnx_file(file: Path) -> None:
    assert refusal(file, b"\x08\x08\x12" + b"\xff" * 100).startswith("is not a model that is known here")


def bomb(parts: dict[str, int]) -> bytes:
    """A zip file whose parts unpack to zeros of these sizes (in MiB)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, size in parts.items():
            with archive.open(name, "w") as part:
                for _ in range(size):
                    part.write(bytes(1 << 20))
    return buffer.getvalue()


def test_an_archive_that_unpacks_to_far_more_than_it_is(file: Path) -> None:
    data = bomb({"m/data.pkl": 300})
    assert refusal(file, data) == (
        f"cannot be a model, since it says that it unpacks to 0.293 GiB, {(300 << 20) // len(data)} times its own "
        "size; copy or save it again"
    )


def test_an_encrypted_archive(file: Path) -> None:
    data = bytearray(zipped({"m/data.pkl": PLAIN}))
    for start in (b"PK\x03\x04", b"PK\x01\x02"):
        data[data.index(start) + (6 if start == b"PK\x03\x04" else 8)] |= 1
    assert refusal(file, bytes(data)).startswith("is a zip file that was cut short or damaged (File 'm/data.pkl' is ")


@pytest.mark.parametrize("code", ["-" * 100_000 + "1", "(" * 1000, "x = '\\d'", "\0", "\u00e9" * 10])
def test_python_that_cannot_be_parsed(tmp_path: Path, code: str) -> None:
    text = refusal(tmp_path / "net.py", code.encode("latin-1"))
    assert text.startswith("is Python code; add the class or function that makes the model, as in ")


def test_json_that_is_nested_deeply_or_has_huge_numbers() -> None:
    for depth in (100, 400, 900, 100_000):
        problem = pt2._json_problem(b'{"a":' + b"[" * depth + b"]" * depth + b"}")
        assert problem in ("", "is nested too deeply to be checked")
    assert problem == "is nested too deeply to be checked"
    assert pt2._json_problem(b'{"a":' + b"1" * 5000 + b"}") == ""  # torch cannot read that, either


def test_an_archive_within_a_program_that_only_torch_could_read() -> None:
    broken = zipped({"m/data.pkl": EVIL}, zipfile.ZIP_DEFLATED).replace(b"data.pkl", b"data.pkx", 1)
    assert pt2._pickle_problem(broken) == "is a pickle that would import something from an archive that cannot be read"


def test_raw_numbers_are_not_taken_for_pickles() -> None:
    """A weight may begin with the sign of a pickle by chance."""
    generator = np.random.default_rng(0)
    for _ in range(3000):
        data = b"\x80" + generator.standard_normal(16).astype(np.float32).tobytes()
        assert pt2._pickle_problem(data) == ""


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 3000, "a" * 300 + ".py:make", "a\nb"])
def test_names_that_no_file_can_have(name: str) -> None:
    with pytest.raises(InputError, match=r"there is no file|is neither a file nor a factory"):
        detect(name)

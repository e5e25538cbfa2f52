"""Telling what a model file is, by its content and without running it."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convert.errors import InputError
from convert.models.detect import detect, split_factory
from convert.models.pickles import code_imports, imports
from convert.records import Kind, ModelRef

CASES = Path(__file__).parents[2] / "shared" / "cases"
HINT = "give a file made by torch.jit.save, torch.export.save, torch.save or torch.onnx.export, or file.py:factory"
WEIGHTS_ONLY = (
    "holds weights without the code of their module; add --model file.py:factory (or pkg.mod:factory) with the class "
    "or function that makes it"
)


def archive(path: Path, entries: dict[str, bytes]) -> str:
    """A zip file with these entries."""
    with zipfile.ZipFile(path, "w") as target:
        for name, data in entries.items():
            target.writestr(name, data)
    return str(path)


def message(*args: Any, **options: Any) -> str:
    """What ``detect`` complains about."""
    with pytest.raises(InputError) as caught:
        detect(*args, **options)
    return str(caught.value)


def onnx_file(path: Path, cut: int = 0, outputs: bool = True) -> str:
    """The smallest protobuf with the fields of an ONNX model."""
    graph = b"\x12\x01g" + (b"\x62\x03\x0a\x01y" if outputs else b"")
    data = b"\x08\x0a\x12\x04test" + b"\x3a" + bytes([len(graph)]) + graph + b"\x42\x02\x10\x12"
    path.write_bytes(data[: len(data) - cut])
    return str(path)


class Custom:
    """Something that only a pickle with code can hold."""


def test_torchscript_and_programs_are_told_by_their_content_whatever_the_suffix(tmp_path: Path) -> None:
    script = archive(tmp_path / "a.bin", {"m/constants.pkl": b"x", "m/code/__torch__.py": b"", "m/data.pkl": b""})
    program = archive(tmp_path / "b.pt", {"m/archive_format": b"pt2", "m/models/model.json": b"{}"})
    older = archive(tmp_path / "c.pt", {"serialized_exported_program.json": b"{}", "version": b"8.1"})
    assert detect(script) == ModelRef(script, Kind.TORCHSCRIPT)
    assert detect(program, trust_pickle=True) == ModelRef(program, Kind.EXPORTED, trust_pickle=True)
    assert detect(older) == ModelRef(older, Kind.EXPORTED)
    compiled = archive(tmp_path / "d.pt2", {"m/archive_format": b"pt2", "m/data/aotinductor/model/m.so": b""})
    assert message(compiled) == f"{compiled} holds compiled code only; give the file that torch.export.save wrote"


def test_onnx_is_told_by_its_fields(tmp_path: Path) -> None:
    whole = onnx_file(tmp_path / "model.bin")
    assert detect(whole) == ModelRef(whole, Kind.ONNX)
    cut = onnx_file(tmp_path / "cut.onnx", cut=3)
    assert message(cut) == f"{cut} cannot be read: it is an ONNX file that was cut short; export or download it again"
    bare = onnx_file(tmp_path / "bare.onnx", outputs=False)
    assert message(bare) == (
        f"{bare} cannot be read: it has the fields of an ONNX file but its graph has no outputs; "
        "export or download it again"
    )


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_a_checkpoint_of_plain_data_is_a_state_dict(tmp_path: Path, protocol: int) -> None:
    plain = {"epoch": 3, "loss": np.float64(0.5), "model": OrderedDict(a=np.ones(2)), "tags": {1, 2}}
    path = archive(tmp_path / "x.pt", {"x/data.pkl": pickle.dumps(plain, protocol), "x/version": b"3"})
    (tmp_path / "nets.py").write_text("def make(): ...")
    assert message(path) == f"{path} {WEIGHTS_ONLY}"
    factory = str(tmp_path / "nets.py")
    assert detect(path, model=f"{factory}:make") == ModelRef(path, Kind.STATE_DICT, "make", factory)


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickled_object_needs_trust_and_its_message_names_the_class(tmp_path: Path, protocol: int) -> None:
    path = archive(tmp_path / "x.pt", {"x/data.pkl": pickle.dumps({"a": Custom()}, protocol)})
    assert message(path) == (
        f"{path} is a pickle that runs code when it is loaded (it wants "
        f"{Custom.__module__}.Custom); if you trust where it comes "
        "from, add --trust-pickle, else save its state dict or a torch.export program instead"
    )
    assert detect(path, trust_pickle=True) == ModelRef(path, Kind.PICKLE, trust_pickle=True)


def test_a_plain_pickle_needs_trust_even_for_plain_data(tmp_path: Path) -> None:
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps({"a": 1}))
    assert "(it wants plain data)" in message(str(path))
    assert detect(str(path), trust_pickle=True).kind is Kind.PICKLE


def test_imports_hidden_behind_the_memo_or_built_at_load_time_are_not_taken_for_plain() -> None:
    hidden = b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94h\x00h\x01\x93."
    assert imports(hidden) == ["os.system"]
    unknown = b"\x80\x04\x8c\x02os]\x93."
    assert code_imports(imports(unknown)) == ["a name that is built at load time"]
    assert code_imports(imports(b"\x80\x02\x82\x01.")) == ["a name from a registry of extensions"]
    assert imports(b"cposix\nsystem\n.") == ["posix.system"]


@pytest.mark.parametrize(
    "name",
    [
        "torch.load",
        "torch.hub.load",
        "torch._utils._rebuild_x",
        "torch.storage._load_from_bytes",
        "builtins.eval",
        "collections.abc.x",
    ],
)
def test_only_data_counts_as_data(name: str) -> None:
    assert code_imports([name]) == [name]


def test_broken_pickles_are_said_to_be_broken(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.pt", {"x/data.pkl": b"\x80\x02\xff."})
    assert message(path).startswith(f"{path} cannot be read: the pickle inside is broken (")


def test_what_is_no_model_is_named(tmp_path: Path) -> None:
    for data, text in (
        (b"", "is empty; save or download it again"),
        (b"\n<!DOCTYPE html><html>", "is a web page; the download did not give the file itself, so fetch it again"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid",
            "is a Git LFS pointer, not the file itself; run git lfs pull",
        ),
        (b"\x93NUMPY\x01\x00", "is a NumPy array"),
        (b"\x1c\x00\x00\x00TFL3", "is a TFLite model, which is a result of a conversion and not a source"),
        (b"hello, world", f"is not a model that is known here (its first bytes are b'hello, world'); {HINT}"),
        (
            b"\x08\x0a\x09\x01",
            f"is not a model that is known here (its first bytes are {bytes([8, 10, 9, 1])!r}); {HINT}",
        ),
    ):
        path = tmp_path / "file"
        path.write_bytes(data)
        assert message(str(path)) == f"{path} {text}"


def test_safetensors_hold_weights(tmp_path: Path) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path = tmp_path / "model.pt"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0\0\0")
    assert message(str(path)) == (
        f"{path} holds weights without the code of their module; add --model file.py:factory (or pkg.mod:factory) with "
        "the class or function that makes it"
    )
    nets = tmp_path / "nets.py"
    nets.touch()
    ref = detect(str(path), f"{nets}:Net")
    assert (ref.kind, ref.factory, ref.factory_file) == (Kind.STATE_DICT, "Net", str(nets))


def test_damaged_and_foreign_zip_files(tmp_path: Path) -> None:
    whole = Path(archive(tmp_path / "a.pt", {"x/data.pkl": pickle.dumps({}), "x/data/0": b"0" * 500}))
    cut = tmp_path / "cut.pt"
    cut.write_bytes(whole.read_bytes()[:300])
    assert message(str(cut)) == (
        f"{cut} is a zip file that was cut short or damaged (File is not a zip file); copy it again"
    )
    buffer = io.BytesIO()
    np.savez(buffer, a=np.ones(1))
    foreign = tmp_path / "x.npz"
    foreign.write_bytes(buffer.getvalue())
    assert message(str(foreign)) == f"{foreign} is a zip file without a model (it holds a.npy); {HINT}"


def test_paths_that_name_no_file(tmp_path: Path) -> None:
    assert message(str(tmp_path)) == f"{tmp_path} is a folder; give the model file in it"
    assert message("nope.pt") == f"there is no file nope.pt; {HINT}"
    assert message("nope.py:make") == "there is no file nope.py to take make from; check the path before the colon"
    assert message("no such:make") == (
        "no such:make is neither a file nor a factory; write file.py:factory or pkg.mod:factory"
    )


def test_factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my nets.py").write_text("import os\nclass Net: ...\ndef _hidden(): ...\ndef make(): ...\n")
    assert detect("my nets.py:make") == ModelRef(str(tmp_path / "my nets.py"), Kind.FACTORY, "make")
    assert detect("pkg.mod:Net.small") == ModelRef(str(tmp_path / "pkg.mod"), Kind.FACTORY, "Net.small")
    assert split_factory("pkg:make") == (str(tmp_path / "pkg"), "make")
    assert message("my nets.py") == (
        "my nets.py is Python code; add the class or function that makes the model (it has Net, make), as in "
        "my nets.py:NAME"
    )


def test_a_factory_that_has_no_use_is_refused(tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "m.onnx")
    assert message(path, model="a:b") == (
        f"{path} is of the kind onnx, which holds its own code, so --model a:b has no use here; leave it out"
    )
    assert message("a.b:c", model="a:b") == (
        "a.b:c is a factory, which makes its own module, so --model a:b has no use here; leave it out"
    )


def test_nothing_is_unpickled_and_no_toolkit_is_imported(tmp_path: Path) -> None:
    import subprocess
    import sys

    class Evil:
        def __reduce__(self) -> Any:
            return open, (str(tmp_path / "ran"), "w")

    path = archive(tmp_path / "x.pt", {"x/data.pkl": pickle.dumps(Evil())})
    program = (
        "import sys; from convert.models.detect import detect; r = detect(sys.argv[1], trust_pickle=True); "
        "print(r.kind, [m for m in ('torch', 'numpy', 'onnx') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert out.stdout == "pickled-module []\n"
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not here")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("files/w01_cuda_saved_module.pt", Kind.PICKLE),
        ("files/w01_cuda_saved_state_dict.pt", Kind.STATE_DICT),
        ("files/w02_missing_module.pt", Kind.PICKLE),
        ("files/w03_from_main.pt", Kind.PICKLE),
        ("files/w07_dataparallel_prefix.pt", Kind.STATE_DICT),
        ("files/w15_trace_float64.pt", Kind.TORCHSCRIPT),
        ("files/w16_dynamic_batch.pt2", Kind.EXPORTED),
        ("files/w20_nan_weight.pt", Kind.STATE_DICT),
        ("files/w20_nan_weight_script.pt", Kind.TORCHSCRIPT),
        ("models/digits_cnn/checkpoint.pt", Kind.STATE_DICT),
        ("models/digits_cnn/model.onnx", Kind.ONNX),
        ("models/digits_cnn/model.pt2", Kind.EXPORTED),
        ("models/digits_cnn/model_pickled.pt", Kind.PICKLE),
        ("models/digits_cnn/model_script.pt", Kind.TORCHSCRIPT),
        ("models/digits_cnn/model_trace.pt", Kind.TORCHSCRIPT),
        ("models/digits_cnn/state_dict.pt", Kind.STATE_DICT),
        ("models/efficientnet_lite0/state_dict.pt", Kind.STATE_DICT),
        ("models/face_onet/model.pt2", Kind.EXPORTED),
    ],
)
def test_the_shared_files(name: str, kind: Kind) -> None:
    factory = f"{CASES}/models/nets.py:DigitsCNN" if kind is Kind.STATE_DICT else None
    assert detect(str(CASES / name), model=factory, trust_pickle=True).kind is kind

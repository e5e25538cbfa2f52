"""The user's own code on the import path (``--code``), and weights in safetensors files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from convert.errors import InputError
from convert.models.detect import detect, split_factory
from convert.options import parse_code
from convert.records import Kind, ModelRef

pytest.importorskip("torch")
import torch
from torch import nn

LAB = """
import torch
from lab_sizes import WIDTH
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(WIDTH, WIDTH)
        self.second = torch.nn.Linear(WIDTH, WIDTH)
        self.second.weight = self.first.weight
    def forward(self, x):
        return self.second(self.first(x))
"""


@pytest.fixture(autouse=True)
def import_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the import path and the loaded modules back as they were."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in [name for name in sys.modules if name.startswith("lab_")]:
        del sys.modules[name]


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A folder with two modules, one of which imports the other."""
    folder = tmp_path / "the lab"
    folder.mkdir()
    (folder / "lab_sizes.py").write_text("WIDTH = 3\n", encoding="utf-8")
    (folder / "lab_nets.py").write_text(LAB, encoding="utf-8")
    return folder


def load(ref: ModelRef) -> Any:
    from convert.models.load import load as product

    return product(ref)


def refused(ref: ModelRef) -> str:
    """What loading complains about."""
    with pytest.raises(InputError) as caught:
        load(ref)
    return str(caught.value)


def test_a_pickled_class_is_found_in_a_folder_of_code(lab: Path, tmp_path: Path) -> None:
    sys.path.insert(0, str(lab))
    from convert.models import factory

    path = tmp_path / "net.pt"
    torch.save(factory.call(str(lab / "lab_nets.py"), "Net"), path)
    for name in ("lab_nets", "lab_sizes"):
        del sys.modules[name]
    sys.path.remove(str(lab))
    ref = detect(str(path), trust_pickle=True)
    assert ref == ModelRef(str(path), Kind.PICKLE, trust_pickle=True)
    assert refused(ref) == (
        f"{path} needs lab_nets.Net, which cannot be imported here (ModuleNotFoundError: No module named 'lab_nets'); "
        "give the folder that holds lab_nets with --code DIR, or save a torch.export program instead"
    )
    code = parse_code([str(tmp_path), str(lab)])
    assert load(ModelRef(str(path), Kind.PICKLE, trust_pickle=True, code=code)).class_name == "Net"
    assert sys.path[:2] == [str(tmp_path), str(lab)]


def test_code_serves_factories_too(lab: Path, tmp_path: Path) -> None:
    outside = tmp_path / "lab_make.py"
    outside.write_text("def make():\n    from lab_nets import Net\n    return Net()\n", encoding="utf-8")
    assert refused(ModelRef(str(outside), Kind.FACTORY, "make")).endswith(
        "failed when called without arguments: ModuleNotFoundError: No module named 'lab_nets'"
    )
    assert load(ModelRef(str(outside), Kind.FACTORY, "make", code=(str(lab),))).parameters == 15


def test_code_must_be_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_code(["."]) == (str(tmp_path),)
    with pytest.raises(InputError) as caught:
        parse_code([".", "nowhere"])
    assert str(caught.value) == "--code nowhere is no folder; give the folder that the model's own modules lie in"


def test_a_module_may_be_named_with_its_folder(lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert split_factory(f"{lab}/lab_nets:Net") == (str(lab / "lab_nets"), "Net")
    assert split_factory("the lab/lab_nets:Net") == (str(lab / "lab_nets"), "Net")
    assert split_factory("lab_nets:Net") == (str(tmp_path / "lab_nets"), "Net")
    with pytest.raises(InputError, match=r"^elsewhere/lab_nets:Net is neither a file nor a factory; "):
        split_factory("elsewhere/lab_nets:Net")


def safetensors(weights: dict[str, Any], path: Path) -> ModelRef:
    """A file with ``weights``, to be filled into the network of the lab."""
    pytest.importorskip("safetensors")
    from safetensors.torch import save_file

    save_file(weights, path)
    return detect(str(path), f"{path.parent}/the lab/lab_nets.py:Net")


@pytest.mark.usefixtures("lab")
def test_safetensors_fill_a_module_and_tied_weights_stand_there_once(tmp_path: Path) -> None:
    weight, bias = torch.arange(9.0).reshape(3, 3), torch.arange(3.0)
    path = tmp_path / "model.safetensors"
    ref = safetensors({"first.weight": weight, "first.bias": bias, "second.bias": -bias}, path)
    assert (ref.kind, ref.trust_pickle) == (Kind.STATE_DICT, False)
    loaded = load(ref)
    x = torch.ones(2, 3)
    expected = nn.functional.linear(nn.functional.linear(x, weight, bias), weight, -bias)
    assert torch.equal(loaded.module(x), expected)
    assert loaded.notes == ("second.weight not in the file, but tied to first.weight, which is",)
    ref = safetensors({"first.weight": weight, "first.bias": bias.to(torch.bfloat16)}, path)
    assert refused(ref) == f"{path} does not fit Net: missing in the file: second.bias; check --model and its settings"
    path.write_bytes(path.read_bytes()[:-4])
    assert refused(ref).startswith(f"{path} cannot be read (SafetensorError: ")


@pytest.mark.usefixtures("lab")
def test_without_its_package_a_safetensors_file_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    ref = safetensors({"first.weight": torch.ones(3, 3)}, path)
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    assert refused(ref) == (
        f"{path} is a safetensors file and the package safetensors, which reads it, is not installed beside torch; "
        "install it, or save the state dict with torch.save"
    )

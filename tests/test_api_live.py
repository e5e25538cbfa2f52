"""A live module becomes a file that any worker can load, and stays what it was."""

from __future__ import annotations

import sys
import threading
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.jobs import REAL

from convert import api_code
from convert.api_code import code_for
from convert.api_live import Saved, forward_names, is_live, save_live
from convert.errors import InputError
from convert.golden_io import load_case
from convert.jobs import Runner
from convert.models.detect import detect
from convert.models.load import load
from convert.records import Golden, InputSpec, Kind
from convert.serial import from_plain, to_plain
from convert.toolchains import Environment

SPEC = InputSpec("x", "float32", (2, 3))


@pytest.fixture
def worker_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that stands for the packages of the core toolchain."""
    packages = tmp_path / "core" / f"python3.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    environment = Environment("core", Path(sys.executable), packages, "cache", {})
    monkeypatch.setattr(api_code, "find", lambda name: environment)
    return packages


def imported(
    monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, on_path: bool = True, file: str = ""
) -> types.ModuleType:
    """An empty module ``name`` whose file lies in ``folder``, as if it had been imported."""
    place = folder / (file or name.replace(".", "/") + ".py")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()
    module = types.ModuleType(name)
    module.__file__ = str(place)
    monkeypatch.setitem(sys.modules, name, module)
    if on_path:
        monkeypatch.syspath_prepend(folder)
    return module


# Where code is.


def test_torch_python_and_convert_need_no_thought(worker_packages: Path) -> None:
    names = ["torch.nn.modules.linear.Linear", "builtins.getattr", "collections.abc.Mapping", "convert.models.Net"]
    code = code_for([*names, "__main__.Net", "cloudpickle.cloudpickle._make_function", "not_imported.Net"])
    assert code.lost == ()
    assert code.folders == tuple(str(folder) for folder in api_code._own_path())


def test_a_file_of_the_users_own_is_found_through_its_folder(
    worker_packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(monkeypatch, tmp_path / "src", "own_nets", on_path=False)
    code = code_for(["own_nets.Outer.Inner"])
    assert code.lost == ()
    assert code.folders[-1] == str(tmp_path / "src")


def test_a_module_in_memory_or_under_another_name_goes_by_value(
    worker_packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "in_memory", types.ModuleType("in_memory"))
    imported(monkeypatch, tmp_path, "renamed", file="file.py")
    assert code_for(["in_memory.Net", "renamed.Net"]).lost == ("in_memory", "renamed")


def test_a_module_that_one_of_the_workers_would_hide_goes_by_value(
    worker_packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(monkeypatch, tmp_path, "own_nets")
    (worker_packages / "own_nets.py").touch()
    assert code_for(["own_nets.Net"]).lost == ("own_nets",)


def test_packages_that_the_worker_lacks_are_borrowed(
    worker_packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = tmp_path / "ours" / worker_packages.parent.name / "site-packages"
    imported(monkeypatch, ours, "some_zoo", on_path=False)
    assert str(ours) in code_for(["some_zoo.Net"]).folders
    (worker_packages / "some_zoo").mkdir()
    assert str(ours) not in code_for(["some_zoo.Net"]).folders
    old = tmp_path / "ours" / "python3.8" / "site-packages"
    imported(monkeypatch, old, "old_zoo", on_path=False)
    assert code_for(["old_zoo.Net"]).folders == code_for([]).folders


# What becomes a file.


def traced(net: Any, example: Any) -> Any:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch.jit is on its way out
        return torch.jit.trace(net, example)


def golden(runner: Runner, saved: Saved, folder: Path) -> tuple[Golden, dict[str, np.ndarray[Any, Any]]]:
    """What a worker makes of it: the golden record, with inputs and outputs of the first case."""
    where, name = saved.options.get("factory", ":").rsplit(":", 1)
    ref = detect(saved.path, f"{where}:{name}" if name else None, bool(saved.options.get("trust_pickle")))
    args = {"ref": ref, "inputs": [SPEC], "dims": [], "samples": None, "folder": str(folder), "half": False}
    ended = runner.run("source", REAL, "golden", to_plain(args))
    assert ended.ok, ended.answer.reason
    record = from_plain(Golden, ended.value)
    case = load_case(folder, record.cases[0])
    return record, {"x": case.feeds["x"], "output": case.outputs["output"]}


@pytest.mark.toolkit
def test_closures_and_local_classes_run_in_a_worker_and_the_module_stays_as_it_is(
    runner: Runner, tmp_path: Path
) -> None:
    import torch

    factor = 3.0

    def triple(value: Any) -> Any:
        return value * factor

    class Local(torch.nn.Module):
        def __init__(self, act: Callable[[Any], Any]) -> None:
            super().__init__()
            self.act = act
            self.norm = torch.nn.BatchNorm1d(3)
            self.drop = torch.nn.Dropout(0.5)

        def forward(self, x: Any) -> Any:
            return self.act(self.drop(self.norm(x)))

    net = Local(lambda value: triple(value) + 1)
    net.norm.running_mean.fill_(0.25)
    net.norm.weight.grad = torch.ones(3)
    net.norm.eval()
    before = {name: (value, value.clone()) for name, value in net.state_dict(keep_vars=True).items()}
    saved = save_live(net, tmp_path)
    record, case = golden(runner, saved, tmp_path)
    assert (saved.name, record.module) == ("Local", "Local")
    wanted = (case["x"] - 0.25) / np.sqrt(np.float32(1 + 1e-5)) * 3 + 1
    np.testing.assert_allclose(case["output"], wanted, rtol=1e-5, atol=1e-5)
    assert (net.training, net.norm.training, net.drop.training) == (True, False, True)
    assert net.norm.weight.grad is not None
    after = net.state_dict(keep_vars=True)
    assert all(after[name] is value and torch.equal(value, copy) for name, (value, copy) in before.items())
    import cloudpickle

    assert cloudpickle.list_registry_pickle_by_value() == set()


@pytest.mark.toolkit
def test_code_of_the_users_own_files_is_found_with_all_that_it_imports(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "own code"
    (source / "pack_of_nets").mkdir(parents=True)
    (source / "constants_of_nets.py").write_text("SCALE = 5.0\n", encoding="utf-8")
    (source / "pack_of_nets" / "__init__.py").touch()
    text = (
        "import torch\n\nclass Outer:\n    class Net(torch.nn.Module):\n        def forward(self, x):\n"
        "            from constants_of_nets import SCALE\n            return x * SCALE\n"
    )
    (source / "pack_of_nets" / "nets.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(source)
    from pack_of_nets.nets import Outer  # type: ignore[import-not-found]

    (tmp_path / "live").mkdir()
    _, case = golden(runner, save_live(Outer.Net(), tmp_path / "live"), tmp_path)
    assert np.array_equal(case["output"], case["x"] * 5)
    for name in ("pack_of_nets", "pack_of_nets.nets"):
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.toolkit
def test_torchscript_and_programs_are_saved_as_what_they_are(tmp_path: Path) -> None:
    import torch

    net, example = torch.nn.Linear(3, 2).eval(), torch.ones(2, 3)
    scripted = traced(net, example)
    program = torch.export.export(net, (example,))
    wanted = net(example)
    for model, kind in ((scripted, Kind.TORCHSCRIPT), (program, Kind.EXPORTED)):
        assert is_live(model)
        folder = tmp_path / kind
        folder.mkdir()
        saved = save_live(model, folder)
        assert "factory" not in saved.options
        ref = detect(saved.path, None, bool(saved.options.get("trust_pickle")))
        assert ref.kind is kind
        assert torch.equal(load(ref).module(example), wanted)


@pytest.mark.toolkit
def test_parametrizations_become_the_weights_that_they_make(tmp_path: Path) -> None:
    import torch

    net = torch.nn.Sequential(torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 2)))
    example = torch.ones(2, 3)
    saved = save_live(net, tmp_path)
    loaded = load(detect(saved.path, None, True)).module
    assert list(loaded.state_dict()) == ["0.bias", "0.weight"]
    assert torch.allclose(loaded(example), net(example))
    assert torch.nn.utils.parametrize.is_parametrized(net[0])
    assert net.training


@pytest.mark.toolkit
def test_what_torch_compile_wrapped_is_taken_out(tmp_path: Path) -> None:
    import torch

    net = torch.nn.Linear(3, 2)
    compiled = torch.compile(net)
    assert forward_names(compiled) == ("input",)
    saved = save_live(compiled, tmp_path)
    loaded = load(detect(saved.path, None, True)).module
    assert (saved.name, type(loaded)) == ("Linear", torch.nn.Linear)
    assert torch.equal(loaded.weight, net.weight)


@pytest.mark.toolkit
def test_a_module_that_cannot_be_pickled_is_refused_with_the_reason(tmp_path: Path) -> None:
    import torch

    net = torch.nn.Linear(3, 2)
    net.guard = threading.Lock()
    with pytest.raises(InputError) as caught:
        save_live(net, tmp_path)
    assert str(caught.value) == (
        "the module Linear cannot be handed to a worker (TypeError: cannot pickle '_thread.lock' object); save it with "
        "torch.export.save and give the file, or name its factory as 'file.py:factory'"
    )


@pytest.mark.toolkit
def test_names_of_what_forward_takes() -> None:
    import torch

    class Many(torch.nn.Module):
        def forward(self, a: Any, b: Any = None, *, c: Any = None) -> Any:
            return a

    class Anything(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return tensors

    net = torch.nn.Linear(3, 2)
    assert forward_names(Many()) == ("a", "b")
    assert forward_names(Anything()) == ()
    assert forward_names(traced(net, torch.ones(2, 3))) == ("input",)
    assert forward_names(torch.export.export(net, (torch.ones(2, 3),))) == ("input",)


def test_files_and_classes_are_not_live() -> None:
    assert not is_live("net.pt")
    assert not is_live(Path("net.pt"))
    assert not is_live(dict)

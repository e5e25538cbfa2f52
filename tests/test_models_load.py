"""Loading a model of every kind, and what is said of it."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convert.errors import InputError
from convert.models.checkpoint import strip_prefixes
from convert.records import Dim, InputSpec, Kind, ModelRef

pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
CASES = Path(__file__).parents[2] / "shared" / "cases"
NETS = """
import torch
from torch import nn
from {beside} import WIDTH

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, WIDTH)
        self.bn = nn.BatchNorm1d(WIDTH)
        self.register_buffer("mask", torch.full((WIDTH,), float("-inf")))

    def forward(self, x, scale=None, *, shift=None):
        y = self.bn(self.fc(x))
        return y if scale is None else y * scale

def half(): return Net().half()
def brain(): return Net().to(torch.bfloat16).eval()
def number(): return 3
def broken(): raise ValueError("no weights\\nat all")
def arguments(size): return Net()
def partly():
    net = Net().eval()
    net.bn.train()
    return net
LIMIT = 3
"""


@pytest.fixture(autouse=True)
def import_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the import path and the loaded modules back as they were."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if "nets" in name or "beside" in name:
            del sys.modules[name]


@pytest.fixture
def nets(tmp_path: Path) -> str:
    """A user's file with factories; it imports another file beside it."""
    folder = tmp_path / "the user's files"
    folder.mkdir()
    (folder / "beside.py").write_text("WIDTH = 3\n")
    (folder / "nets.py").write_text(NETS.format(beside="beside"))
    return str(folder / "nets.py")


def load(path: Any, kind: Kind, name: str | None = None, file: str | None = None, trust: bool = False) -> Any:
    """Load; ``name`` and ``file`` are a factory's."""
    from convert.models.load import load as product

    return product(ModelRef(str(path), kind, name, file, trust))


def refused(*args: Any, **options: Any) -> str:
    """What loading complains about."""
    with pytest.raises(InputError) as caught:
        load(*args, **options)
    return str(caught.value)


def make(nets: str, name: str = "Net") -> Any:
    """A seeded module of the user's."""
    import torch

    from convert.models import factory

    torch.manual_seed(0)
    return factory.call(nets, name)


def save(value: Any, path: Path) -> str:
    """Save with torch."""
    import torch

    torch.save(value, path)
    return str(path)


def same(module: Any, other: Any) -> bool:
    """Whether two modules give the same on one input."""
    import torch

    example = torch.linspace(-1, 1, 8).reshape(2, 4)
    return bool(torch.allclose(module(example), other.eval()(example), atol=1e-6))


def test_a_factory_with_a_file_beside_it(nets: str) -> None:
    loaded = load(nets, Kind.FACTORY, "Net")
    assert (loaded.class_name, loaded.parameter_names, loaded.script) == ("Net", ("x", "scale", "shift"), False)
    assert not loaded.module.training
    assert loaded.notes == ()
    assert not loaded.module.training
    assert (loaded.parameters, loaded.parameter_bytes) == (4 * 3 + 3 + 3 + 3, 84)
    assert loaded.inputs is None
    assert load(nets, Kind.FACTORY, "partly").notes == ("1 parts were in train mode (such as bn); put in eval mode",)


def test_a_factory_in_a_module_of_the_working_folder(tmp_path: Path) -> None:
    package = tmp_path / "pkg_nets"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "beside.py").write_text("WIDTH = 2\n")
    (package / "mod.py").write_text(NETS.format(beside=".beside"))
    assert load(tmp_path / "pkg_nets.mod", Kind.FACTORY, "Net").parameters == 4 * 2 + 2 + 2 + 2
    text = refused(tmp_path / "pkg_nets.missing", Kind.FACTORY, "Net")
    assert text == (
        f"the module pkg_nets.missing (looked in {tmp_path} first) could not be imported: "
        "ModuleNotFoundError: No module named 'pkg_nets.missing'"
    )


def test_factories_that_cannot_be_used(nets: str, tmp_path: Path) -> None:
    assert refused(nets, Kind.FACTORY, "number") == f"number of {nets} returned a int; it must return a torch.nn.Module"
    assert refused(nets, Kind.FACTORY, "broken") == (
        f"broken of {nets} failed when called without arguments: ValueError: no weights"
    )
    assert "TypeError: arguments() missing 1 required positional argument: 'size'" in refused(
        nets, Kind.FACTORY, "arguments"
    )
    assert refused(nets, Kind.FACTORY, "LIMIT") == (
        f"LIMIT of {nets} is a int; name a class or function without arguments"
    )
    assert refused(nets, Kind.FACTORY, "Nat").startswith(f"{nets} has no Nat; it has Net, half, brain")
    bad = tmp_path / "bad_nets.py"
    bad.write_text("def x(:\n")
    assert refused(bad, Kind.FACTORY, "x").startswith(f"{bad} could not be imported: SyntaxError: ")
    bad.write_text("import sys; sys.exit(1)\n")
    assert refused(bad, Kind.FACTORY, "x") == f"{bad} called sys.exit when it was imported; guard that with __name__"


def test_a_file_with_the_name_of_a_package_hides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "torch.py"
    path.write_text("from torch import nn\ndef make(): return nn.Linear(2, 2).eval()\n")
    assert load(path, Kind.FACTORY, "make").class_name == "Linear"
    import torch

    assert torch.__file__ != str(path)


def test_weight_types_are_noted(nets: str) -> None:
    import torch

    assert load(nets, Kind.FACTORY, "half").notes == ("float16 weights",)
    loaded = load(nets, Kind.FACTORY, "brain")
    assert loaded.notes == ("bfloat16 weights turned into float32, which holds them exactly",)
    assert {item.dtype for item in loaded.module.parameters()} == {torch.float32}


def test_a_state_dict_and_where_it_was_found(nets: str, tmp_path: Path) -> None:
    net = make(nets)
    state = net.state_dict()
    for value, notes in (
        (state, ()),
        ({"model_state_dict": state, "epoch": 3}, ("weights taken from the checkpoint's key model_state_dict",)),
        (
            {"state_dict": {"model": state}, "ema": state, "best": np.float64(0.5)},
            ("weights taken from the checkpoint's key state_dict (also there: ema).model",),
        ),
        ({f"module.{key}": item for key, item in state.items()}, ("prefix module. stripped from 8 keys",)),
        (state | {"epoch": 3}, ("keys without tensors ignored: epoch",)),
    ):
        loaded = load(save(value, tmp_path / "w.pt"), Kind.STATE_DICT, "Net", nets)
        assert loaded.notes == notes
        assert same(loaded.module, net)


def test_half_weights_go_into_a_float_module(nets: str, tmp_path: Path) -> None:
    loaded = load(save(make(nets, "half").state_dict(), tmp_path / "w.pt"), Kind.STATE_DICT, "Net", nets)
    assert loaded.notes == ("float16 weights loaded into float32 (7 tensors)",)


def test_weights_that_do_not_fit_are_named(nets: str, tmp_path: Path) -> None:
    import torch

    state = make(nets).state_dict()
    path = tmp_path / "w.pt"
    start, end = f"{path} does not fit Net: ", "; check --model and its settings"
    save({key.replace("fc", "head"): item for key, item in state.items()}, path)
    assert refused(path, Kind.STATE_DICT, "Net", nets) == (
        f"{start}missing in the file: fc.weight, fc.bias; unexpected in the file: head.weight, head.bias{end}"
    )
    save(state | {"fc.weight": torch.ones(5, 4)}, path)
    assert refused(path, Kind.STATE_DICT, "Net", nets) == (
        f"{start}fc.weight is [5, 4] in the file and [3, 4] in the module{end}"
    )
    save(state | {"fc.bias": torch.ones(3, dtype=torch.int64)}, path)
    assert refused(path, Kind.STATE_DICT, "Net", nets) == (
        f"{start}fc.bias is int64 in the file and float32 in the module{end}"
    )
    save({}, path)
    assert refused(path, Kind.STATE_DICT, "Net", nets) == (
        f"{path} has no weights by name (its keys are none); save model.state_dict() with torch.save"
    )
    save(torch.ones(2), path)
    assert "(it holds a Tensor)" in refused(path, Kind.STATE_DICT, "Net", nets)


def test_prefixes_are_stripped_only_where_that_helps() -> None:
    wanted = {"model.a", "model.b.c"}
    keys = {"model.a": 1, "model.b.c": 2}
    assert strip_prefixes(keys, wanted) == (keys, [])
    wrapped = {"module._orig_mod.model.a": 1, "module._orig_mod.model.b._orig_mod.c": 2}
    assert strip_prefixes(wrapped, wanted) == (
        keys,
        ["prefix module. stripped from 2 keys", "prefix _orig_mod. stripped from 2 keys"],
    )
    assert strip_prefixes({"module.x": 1}, {"y"}) == ({"module.x": 1}, [])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_no_numbers_are_named(nets: str, tmp_path: Path, value: float) -> None:
    import torch

    net = make(nets)
    with torch.no_grad():
        net.fc.weight[1, 2] = value
    word = "NaN" if value != value else "infinity"
    end = f" holds {word}; find out how that came about in training"
    path = save(net.state_dict(), tmp_path / "w.pt")
    assert refused(path, Kind.STATE_DICT, "Net", nets) == f"weight fc.weight of {path}{end}"
    script = tmp_path / "s.pt"
    torch.jit.save(torch.jit.trace(net.eval(), torch.ones(2, 4)), script)
    assert refused(script, Kind.TORCHSCRIPT) == f"weight fc.weight of {script}{end}"
    program = tmp_path / "p.pt2"
    torch.export.save(torch.export.export(net.eval(), (torch.ones(2, 4),)), program)
    assert refused(program, Kind.EXPORTED) == f"weight fc.weight of {program}{end}"


def test_a_module_without_values_is_refused(tmp_path: Path) -> None:
    lazy = tmp_path / "lazy_nets.py"
    lazy.write_text(
        "from torch import nn\ndef make(): return nn.LazyLinear(3)\ndef meta(): return nn.Linear(2, 2, device='meta')"
    )
    for name in ("make", "meta"):
        assert refused(lazy, Kind.FACTORY, name) == (
            f"weight weight of {lazy} has no values yet; run the model once before it is saved"
        )


def test_a_checkpoint_never_runs_code_without_trust(nets: str, tmp_path: Path) -> None:
    flag = tmp_path / "ran"

    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(flag),)

    path = save({"state_dict": make(nets).state_dict(), "x": Evil()}, tmp_path / "w.pt")
    assert refused(path, Kind.STATE_DICT, "Net", nets) == (
        f"{path} would run code when it is loaded (it wants posix.mkdir); if you trust where it comes from, "
        "add --trust-pickle"
    )
    assert not flag.exists()
    load(path, Kind.PICKLE, "Net", nets, trust=True)
    assert flag.exists()


def test_torch_s_restricted_unpickler_is_used_whatever_the_look_ahead_says(
    nets: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from convert.models import unpickle

    flag = tmp_path / "ran"

    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(flag),)

    path = save({"x": Evil()}, tmp_path / "w.pt")
    monkeypatch.setattr(unpickle, "wanted", lambda _: [])
    assert refused(path, Kind.STATE_DICT, "Net", nets).startswith(f"{path} cannot be read (UnpicklingError: ")
    assert not flag.exists()


def test_a_pickled_module(nets: str, tmp_path: Path) -> None:
    net = make(nets)
    path = save(net, tmp_path / "m.pt")
    loaded = load(path, Kind.PICKLE, trust=True)
    assert same(loaded.module, net)
    assert loaded.notes == ("was saved in train mode; put in eval mode",)
    inside = load(save({"ema": net, "epoch": 2}, tmp_path / "c.pt"), Kind.PICKLE, trust=True)
    assert inside.notes[0] == "module taken from the checkpoint's key ema"
    plain = tmp_path / "m.pkl"
    plain.write_bytes(pickle.dumps(net))
    assert same(load(plain, Kind.PICKLE, trust=True).module, net)
    text = refused(save([Path("x")], tmp_path / "l.pt"), Kind.PICKLE, trust=True)
    assert text == f"{tmp_path}/l.pt holds a list and no torch.nn.Module; save the module itself"


def test_a_pickled_module_whose_class_is_not_there_can_be_told_where_it_is(
    nets: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = make(nets)
    path = save(net, tmp_path / "m.pt")
    monkeypatch.setitem(sys.modules, "__main__", type(sys)("__main__"))
    sys.modules["__main__"].Net = type(net)  # type: ignore[attr-defined]
    monkeypatch.setattr(type(net), "__module__", "__main__")
    script = save(net, tmp_path / "s.pt")
    for name in ("nets", "beside"):
        del sys.modules[name]
    sys.path.remove(str(Path(nets).parent))
    del sys.modules["__main__"].Net
    for file, wants, advice in (
        (path, "nets.Net", "give the folder that holds nets with --code DIR"),
        (script, "__main__.Net", "name the script that defined Net with --model file.py:Net"),
    ):
        text = refused(file, Kind.PICKLE, trust=True)
        assert text.startswith(f"{file} needs {wants}, which cannot be imported here (")
        assert text.endswith(f"; {advice}, or save a torch.export program instead")
    for file in (path, script):
        assert load(file, Kind.PICKLE, "Net", nets, trust=True).parameters == 21


def test_torchscript(nets: str, tmp_path: Path) -> None:
    import torch

    net = make(nets)
    path = tmp_path / "s.pt"
    torch.jit.save(torch.jit.script(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.5)).double()), path)
    loaded = load(path, Kind.TORCHSCRIPT)
    assert (loaded.class_name, loaded.parameter_names, loaded.script) == ("Sequential", ("input",), True)
    assert loaded.notes == ("was saved in train mode; put in eval mode", "float64 weights")
    torch.jit.save(torch.jit.freeze(torch.jit.trace(net.eval(), torch.ones(2, 4))), path)
    assert same(load(path, Kind.TORCHSCRIPT).module, net)
    path.write_bytes(path.read_bytes()[:-40])
    assert refused(path, Kind.TORCHSCRIPT).startswith(
        f"{path} cannot be opened by torch {torch.__version__} (RuntimeError"
    )


def test_a_program_with_nested_constant_and_related_inputs(tmp_path: Path) -> None:
    import torch

    class Nested(torch.nn.Module):
        def forward(self, pair: Any, table: Any, factor: float = 1.0) -> Any:
            return {"sum": pair[0] + pair[1], "wide": table["k"] * factor}

    batch = torch.export.Dim("batch", max=64)
    example = ((torch.ones(3, 2), torch.ones(3, 2)), {"k": torch.ones(5, 2)}, 2.0)
    shapes = (({0: batch}, {0: batch}), {"k": {0: torch.export.Dim.DYNAMIC}}, None)
    path = tmp_path / "p.pt2"
    torch.export.save(torch.export.export(Nested(), example, dynamic_shapes=shapes), path)
    loaded = load(path, Kind.EXPORTED)
    rows, other = loaded.dims
    assert loaded.inputs == (
        InputSpec("pair_0", "float32", (rows.name, 2)),
        InputSpec("pair_1", "float32", (rows.name, 2)),
        InputSpec("table_k", "float32", (other.name, 2)),
    )
    assert (rows.name, rows.opt, rows.max) == ("N", 3, 64)
    assert (other.name, other.opt, other.max) == ("table_k_0", 5, 20)


def test_a_program_whose_input_size_is_an_expression_is_frozen_there(tmp_path: Path) -> None:
    import torch

    class Sum(torch.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return torch.cat([a, a]) + b

    half = torch.export.Dim("half", min=2, max=8)
    program = torch.export.export(
        Sum(), (torch.ones(3, 2), torch.ones(6, 2)), dynamic_shapes=({0: half}, {0: 2 * half})
    )
    path = tmp_path / "p.pt2"
    torch.export.save(program, path)
    loaded = load(path, Kind.EXPORTED)
    assert [spec.shape for spec in loaded.inputs] == [(3, 2), (6, 2)]
    assert loaded.dims == ()
    (note,) = loaded.notes
    assert note.endswith(" frozen at 3, since an input's size is an expression of it")


def test_a_program_exported_in_train_mode_is_noted(tmp_path: Path) -> None:
    import torch

    path = tmp_path / "p.pt2"
    torch.export.save(torch.export.export(torch.nn.Dropout(0.5), (torch.ones(3, 2),)), path)
    assert load(path, Kind.EXPORTED).notes == (
        "was exported in train mode (dropout is active); export model.eval() instead",
    )
    torch.export.save(torch.export.export(torch.nn.Dropout(0.5).eval(), (torch.ones(3, 2),)), path)
    assert load(path, Kind.EXPORTED).notes == ()


def onnx_model(path: Path, weight: float = 2.0, dtype: int = 1) -> str:
    """A graph that multiplies by a weight, with a named, an unnamed and a fixed dimension."""
    import onnx
    from onnx import TensorProto, helper

    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Mul", ["x", "w"], ["y"])] if dtype == 1 else [],
            "g",
            [helper.make_tensor_value_info("x", dtype, ["N", None, 3])],
            [helper.make_tensor_value_info("y" if dtype == 1 else "x", dtype, ["N", None, 3])],
            [helper.make_tensor("w", TensorProto.FLOAT, [1], [weight])] if dtype == 1 else [],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save(model, path)
    return str(path)


def test_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = onnx_model(tmp_path / "m.onnx")
    loaded = load(path, Kind.ONNX)
    assert loaded.inputs == (InputSpec("x", "float32", ("N", "x_1", 3)),)
    assert (loaded.dims, loaded.parameters, loaded.parameter_bytes) == ((), 1, 4)
    values = np.ones((1, 2, 3), np.float32)
    np.testing.assert_array_equal(loaded.module({"x": values})["y"], 2 * values)
    nan = onnx_model(tmp_path / "nan.onnx", float("nan"))
    assert refused(nan, Kind.ONNX) == f"weight w of {nan} holds NaN; find out how that came about in training"
    text = onnx_model(tmp_path / "text.onnx", dtype=8)
    assert refused(text, Kind.ONNX) == (f"input x of {text} holds object; only numbers and booleans can be converted")
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(Path(path).read_bytes()[:-9])
    assert refused(cut, Kind.ONNX).startswith(f"{cut} cannot be opened by onnxruntime (")


@pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not here")
def test_the_shared_files() -> None:
    files, models = CASES / "files", CASES / "models"
    nets = str(models / "nets.py")
    assert load(files / "w01_cuda_saved_module.pt", Kind.PICKLE, trust=True).parameters == 135
    assert "needs my_lab_models.SecretNet," in refused(files / "w02_missing_module.pt", Kind.PICKLE, trust=True)
    assert "needs __main__.TopNet," in refused(files / "w03_from_main.pt", Kind.PICKLE, trust=True)
    assert load(files / "w15_trace_float64.pt", Kind.TORCHSCRIPT).notes == ("float64 weights",)
    dynamic = load(files / "w16_dynamic_batch.pt2", Kind.EXPORTED)
    assert dynamic.dims == (Dim("N", 1, 2, 16),)
    assert "weight 0.weight of" in refused(files / "w20_nan_weight_script.pt", Kind.TORCHSCRIPT)
    for name, factory in (
        ("crepe_tiny", "crepe_tiny"),
        ("digits_cnn", "DigitsCNN"),
        ("efficientnet_lite0", "EffLite0"),
        ("face_onet", "FaceONet"),
        ("face_pnet", "FacePNet"),
    ):
        assert load(models / name / "state_dict.pt", Kind.STATE_DICT, factory, nets).notes == ()

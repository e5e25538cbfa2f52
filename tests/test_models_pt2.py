"""Exported programs from people one does not know: nothing in them may run."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from convert.errors import InputError
from convert.models.expressions import is_arithmetic, is_guard
from convert.models.pt2 import require_harmless
from convert.records import Dim, InputSpec, Kind, ModelRef

pytest.importorskip("torch")
MODEL, WEIGHTS = "models/model.json", "data/weights/model_weights_config.json"
ENDING = "; if you trust where it comes from, add --trust-pickle"


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, flag: Path) -> None:
        self.flag = str(flag)

    def __reduce__(self) -> Any:
        return open, (self.flag, "w")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with a dynamic first axis of 1 to 16, exported at 3."""
    import torch

    batch = torch.export.Dim("batch", min=1, max=16)
    program = torch.export.export(torch.nn.Linear(4, 2).eval(), (torch.ones(3, 4),), dynamic_shapes=({0: batch},))
    path = tmp_path_factory.mktemp("pt2") / "good.pt2"
    torch.export.save(program, path)
    return path


def records(path: Path) -> dict[str, bytes]:
    """The parts of an archive."""
    import torch

    reader = torch._C.PyTorchFileReader(str(path))
    return {name: reader.get_record(name) for name in reader.get_all_records()}


def write(path: Path, parts: dict[str, bytes]) -> Path:
    """Write an archive as torch does."""
    import torch

    writer = torch._C.PyTorchFileWriter(str(path))
    writer.set_min_version(6)
    for name, data in parts.items():
        if name not in (".data/version", ".data/serialization_id", "byteorder"):
            writer.write_record(name, data, len(data))
    writer.write_end_of_file()
    return path


def edited(path: Path, good: Path, edit: Callable[[Any], None], part: str = MODEL) -> Path:
    """A copy of ``good`` with the JSON of one part changed."""
    parts = records(good)
    value = json.loads(parts[part])
    edit(value)
    return write(path, parts | {part: json.dumps(value).encode()})


def saved(value: Any) -> bytes:
    """What torch.save writes."""
    import torch

    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def load(path: Path, trust: bool = False) -> Any:
    """Load through the product."""
    from convert.models.load import load as product

    return product(ModelRef(str(path), Kind.EXPORTED, trust_pickle=trust))


def torch_would_run(path: Path, flag: Path) -> bool:
    """Whether torch's own loader runs what is in the file; proves that a test can fail."""
    import torch

    with contextlib.suppress(Exception):  # what was loaded is no program any more, but by then it has run
        torch.export.load(str(path)).module()(torch.ones(3, 4))
    ran = flag.exists()
    flag.unlink(missing_ok=True)
    return ran


def refused(path: Path) -> str:
    """The message that the product refuses the file with."""
    with pytest.raises(InputError) as caught:
        load(path)
    return str(caught.value)


def test_a_good_program_is_loaded_with_its_inputs_and_range(good: Path) -> None:
    loaded = load(good)
    (spec,), (dim,) = loaded.inputs, loaded.dims
    assert spec == InputSpec("input", "float32", (dim.name, 4))
    assert dim == Dim(dim.name, 1, 3, 16)
    assert (loaded.class_name, loaded.parameter_names, loaded.parameters) == ("ExportedProgram", ("input",), 10)


@pytest.mark.filterwarnings("ignore")
def test_a_pickled_weight_does_not_run(good: Path, tmp_path: Path) -> None:
    flag, path = tmp_path / "ran", tmp_path / "evil.pt2"

    def use_pickle(config: Any) -> None:
        config["config"]["weight"]["use_pickle"] = True

    parts = records(edited(tmp_path / "step.pt2", good, use_pickle, WEIGHTS))
    name = json.loads(parts[WEIGHTS])["config"]["weight"]["path_name"]
    write(path, parts | {f"data/weights/{name}": saved(Evil(flag))})
    assert torch_would_run(path, flag)
    part = f"evil/data/weights/{name}"
    assert refused(path) == (
        f"{path} was not opened, since its part {part!r} is a pickle that would import _io.open{ENDING}"
    )
    assert not flag.exists()


@pytest.mark.filterwarnings("ignore")
def test_the_environment_variable_alone_would_stop_it_too(good: Path, tmp_path: Path) -> None:
    import torch

    from convert.models.exported import _weights_only

    flag = tmp_path / "ran"
    path = write(tmp_path / "evil.pt2", records(good) | {"data/sample_inputs/model.pt": saved((Evil(flag),))})
    assert torch_would_run(path, flag)
    with _weights_only(True), pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.export.load(str(path))
    assert not flag.exists()
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inside", ["{}", "Symbol('s1')+{}", "FloorDiv({}, 2)"])
def test_a_shape_expression_does_not_run(good: Path, tmp_path: Path, inside: str) -> None:
    flag = tmp_path / "ran"
    code = inside.format(f"__import__('pathlib').Path('{flag}').touch()")

    def set_expression(model: Any) -> None:
        sizes = model["graph_module"]["graph"]["tensor_values"]["input"]["sizes"]
        sizes[0]["as_expr"]["expr_str"] = code

    path = edited(tmp_path / "evil.pt2", good, set_expression)
    assert torch_would_run(path, flag)
    assert (
        refused(path) == f"{path} was not opened, since its part 'evil/{MODEL}' holds {code[:60]!r} as expr_str{ENDING}"
    )
    assert not flag.exists()


@pytest.mark.filterwarnings("ignore")
def test_a_guard_does_not_run(good: Path, tmp_path: Path) -> None:
    flag = tmp_path / "ran"
    code = f"open('{flag}', 'w')"
    path = edited(tmp_path / "evil.pt2", good, lambda model: model.update(guards_code=[code]))
    assert torch_would_run(path, flag)
    assert "as guards_code" in refused(path)
    assert not flag.exists()


@pytest.mark.filterwarnings("ignore")
def test_an_opaque_object_does_not_run(good: Path, tmp_path: Path) -> None:
    flag, constants = tmp_path / "ran", "data/constants/model_constants_config.json"
    for name in ("opaque_obj_0", "opaque_obj_/../x"):
        config = {"config": {"c": {"path_name": name, "is_param": False, "use_pickle": True, "tensor_meta": None}}}
        parts = {constants: json.dumps(config).encode(), f"data/constants/{name}": pickle.dumps(Evil(flag))}
        path = write(tmp_path / "evil.pt2", records(good) | parts)
        assert torch_would_run(path, flag)
        refused(path)
        assert not flag.exists()


def test_what_only_torch_s_own_reader_sees_is_looked_at_too(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from convert.models import exported

    evil = edited(tmp_path / "evil.pt2", good, lambda model: model.update(guards_code=["open('x')"]))
    data = evil.read_bytes()
    monkeypatch.setattr(zipfile.ZipFile, "namelist", lambda _: [])
    with pytest.raises(InputError, match=r"part 'models/model\.json' holds"):
        exported._require_harmless(str(evil), data)


def older(path: Path, good: Path, state: bytes | None = None) -> Path:
    """The same program in the format from before torch 2.8."""
    import torch
    from torch._export.serde.schema import SCHEMA_VERSION

    program = torch.export.load(str(good))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("version", ".".join(map(str, SCHEMA_VERSION)))
        archive.writestr("serialized_exported_program.json", records(good)[MODEL])
        archive.writestr("serialized_state_dict.pt", state or saved(dict(program.state_dict)))
        archive.writestr("serialized_constants.pt", saved({}))
        archive.writestr("serialized_example_inputs.pt", saved(program.example_inputs))
    return path


@pytest.mark.filterwarnings("ignore")
def test_the_older_format_loads_and_does_not_run_either(good: Path, tmp_path: Path) -> None:
    import torch

    loaded = load(older(tmp_path / "old.pt2", good))
    example = torch.ones(2, 4)
    assert torch.equal(loaded.module(example), load(good).module(example))
    flag = tmp_path / "ran"
    path = older(tmp_path / "evil.pt2", good, saved(Evil(flag)))
    assert torch_would_run(path, flag)
    assert "'serialized_state_dict.pt' is a pickle that would import _io.open" in refused(path)
    assert not flag.exists()


def test_a_program_saved_on_cuda_loads_on_the_cpu(good: Path, tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("only hosts without CUDA need the change")

    def to_cuda(value: Any) -> None:
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            if isinstance(item, dict) and item.get("type") == "cpu":
                item.update(type="cuda", index=0)
            to_cuda(item)

    step = edited(tmp_path / "step.pt2", good, to_cuda)
    path = edited(tmp_path / "cuda.pt2", step, to_cuda, WEIGHTS)
    example = torch.ones(2, 4)
    assert torch.equal(load(path).module(example), load(good).module(example))


def problem(value: Any, name: str = MODEL) -> str:
    """What is wrong with a part that holds this JSON; empty if nothing is."""
    try:
        require_harmless("f", [name], lambda _: json.dumps(value).encode())
    except InputError as error:
        return str(error).removeprefix(f"f was not opened, since its part {name!r} ").removesuffix(ENDING)
    return ""


@pytest.mark.parametrize(
    "target",
    [
        "torch.os.system",
        "torch.load",
        "torch.hub.load",
        "torch.ops.load_library",
        "torch.ops.aten.save.default",
        "torch.ops.aten.from_file.default",
        "torch.ops.prim.RaiseException.default",
        "torch.ops.aten.add.Tensor.x",
        "torch.ops.aten.__class__.mro",
        "torch.ops.higher_order.call_torchbind",
        "torch.ops.higher_order.cond.fn",
        "_operator.methodcaller",
        "builtins.eval",
        "math.__loader__",
    ],
)
def test_only_operators_may_be_called(target: str) -> None:
    assert problem({"nodes": [{"target": target}]}) == f"holds {target!r} as target"
    assert problem({"nodes": [{"inputs": [{"arg": {"as_operator": target}}]}]}) == f"holds {target!r} as as_operator"


@pytest.mark.parametrize(
    "target",
    [
        "torch.ops.aten.add.Tensor",
        "torch.ops.aten.__and__.Tensor",
        "torch.ops.aten._assert_scalar.default",
        "torch.ops.torchvision.nms.default",
        "torch.ops.higher_order.cond",
        "_operator.getitem",
        "math.floor",
        "torch.sym_max",
    ],
)
def test_operators_are_accepted(target: str) -> None:
    assert problem({"nodes": [{"target": target}]}) == ""


def test_text_that_lands_in_code_is_refused_and_text_that_is_quoted_is_not() -> None:
    assert problem({"inputs": [{"as_tensor": {"name": "x): import os #"}}]}) == "holds 'x): import os #' as name"
    assert problem({"parameter_name": 'a"), print("b'}) == "holds 'a\"), print(\"b' as parameter_name"
    assert problem({"inputs": [{"as_string": "' or print() or '"}]}) == "holds \"' or print() or '\" as as_string"
    assert problem({"nodes": [{"inputs": [{"arg": {"as_string": "it's (fine)"}}]}]}) == ""
    assert problem({"nodes": [{"metadata": {"stack_trace": 'File "a.py", line 1'}}]}) == ""
    assert problem({"x": {"as_custom_obj": {}}}) == "holds a custom object"
    assert problem({"range_constraints": {"2*s9": {}}}) == ""
    assert problem({"range_constraints": {"print()": {}}}) == "holds 'print()' as a name"
    assert problem({"x": {"a'b": 1}}) == 'holds "a\'b" as a name'
    assert problem({"any": "text (1)"}, "extra/notes.json") == ""
    assert problem({"any": "text (1)"}, "models/extra/model.json") == "holds 'text (1)' as any"
    assert problem({}, "data/aotinductor/model/a.json") == "is compiled code"


def test_trees_may_name_containers_only() -> None:
    def tree(kind: str, context: str) -> str:
        return json.dumps([1, {"type": kind, "context": context, "children_spec": []}])

    assert problem({"in_spec": tree("builtins.dict", '["a", "b"]')}) == ""
    for bad in (
        tree("collections.defaultdict", '{"default_factory_module": "os", "default_factory_name": "system"}'),
        tree("builtins.dict", '[{"__enum__": true, "fqn": "antigravity:x", "name": "y"}]'),
        tree("builtins.dict", json.dumps(["a'] or print() or ['"])),
        "no json",
    ):
        assert problem({"in_spec": bad}).endswith("as in_spec")


@pytest.mark.parametrize(
    "text",
    [
        "Symbol('s31', positive=True, integer=True)",
        "Mul(Integer(4), Max(Integer(1), TruncToInt(Mul(Float('1.5', precision=53), ToFloat(Symbol('s9'))))))",
        "GreaterThan(Symbol('u0', integer=True), Integer(0))",
        "2*s0 + 1",
        "FloorDiv(s0 - 1, 2) // 3",
        "-1.5e-3 < s0 <= int_oo",
    ],
)
def test_arithmetic_is_accepted(text: str) -> None:
    assert is_arithmetic(text)
    assert not is_arithmetic(f"{text}.args")
    assert not is_arithmetic(f"[{text} for x in y]")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "eval('1')",
        "Symbol('__import__(1)')",
        "S('1')",
        "sympify('1')",
        "(lambda: 1)()",
        "Symbol('s0').__class__",
        "Symbol(name='s0')",
        "Symbol(*a)",
        "Symbol('s0', **a)",
        "s0[0]",
        "f'{s0}'",
        "s0 @ s1",
        "(s0 := 1)",
        "Add(1\n, 2)",
        "\uff21dd(1, 2)",
        "1" * 30_000,
        "(" * 5_000,
    ],
)
def test_everything_else_is_not_arithmetic(text: str) -> None:
    assert not is_arithmetic(text)


def test_guards_may_read_sizes_and_nothing_more() -> None:
    assert is_guard("L['x'].size()[0] == 1 or L['x'].size()[0] == L['y']['k'].stride()[1] * 2")
    assert is_guard("Mod(L['x'].size()[0], 4) == 0 and math.floor(2.5) == 2 and L['mode'] == 'mean'")
    for bad in (
        "L['x'].__class__",
        "L['x'].tofile('a')",
        "math.sumprod.__self__",
        "L['x'].size.__globals__['os']",
        "L[print()]",
        "print()",
        "L['a\"b']",
    ):
        assert not is_guard(bad)

"""Running a loaded model: by name, in its own precision and in others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convert.errors import InputError, StageError
from convert.records import Kind, ModelRef

pytest.importorskip("torch")
import torch

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


def wrap(module: Any) -> Any:
    """The module as the loader would give it."""
    from convert.models.load import _live

    return _live(module.eval(), ModelRef("m", Kind.FACTORY, "f"))


def run(module: Any, feeds: dict[str, Any], dtype: str | None = None, names: tuple[str, ...] | None = None) -> Any:
    """Run a module on arrays."""
    from convert.models.run import plan_call, run_source

    loaded = module if hasattr(module, "parameter_names") else wrap(module)
    return run_source(loaded, plan_call(loaded, names or tuple(feeds)), feeds, dtype)


class Affine(torch.nn.Module):
    """Three parameters of forward, one of them by keyword only."""

    def forward(self, x: Any, scale: Any = None, *, shift: Any = None) -> Any:
        y = x if scale is None else x * scale
        return y if shift is None else y + shift


X = np.array([1.0, 2.0], np.float32)


def test_inputs_go_by_keyword_where_forward_knows_their_names() -> None:
    from convert.models.run import plan_call

    ((name, value),) = run(Affine(), {"shift": X, "x": 10 * X})
    assert name == "output"
    np.testing.assert_array_equal(value, np.array([11, 22], np.float32))
    loaded = wrap(Affine())
    assert plan_call(loaded, ("x", "shift")).notes == ()
    plan = plan_call(loaded, ("image", "gain"))
    assert plan.notes == ("inputs image, gain given to forward by position (x, scale, shift)",)
    assert plan.arrange((1, 2)) == ((1, 2), {})


def test_inputs_that_cannot_be_given_are_refused(tmp_path: Path) -> None:
    from convert.models.load import load
    from convert.models.run import plan_call

    with pytest.raises(InputError, match=r"^forward takes 1 inputs \(input\), not 2; give as many$"):
        plan_call(wrap(torch.nn.ReLU()), ("a", "b"))
    with pytest.raises(InputError, match=r"^the inputs a, a have a name twice; give each its own$"):
        plan_call(wrap(Affine()), ("a", "a"))
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), tmp_path / "p.pt2")
    program = load(ModelRef(str(tmp_path / "p.pt2"), Kind.EXPORTED))
    with pytest.raises(InputError, match=r"^the model's inputs are input, not x; use these names$"):
        plan_call(program, ("x",))


def test_a_program_gets_its_nest_and_its_constants_back(tmp_path: Path) -> None:
    from convert.models.load import load

    class Nested(torch.nn.Module):
        def forward(self, pair: Any, factor: float, *, table: Any) -> Any:
            return {"difference": pair[0] - pair[1], "scaled": table["k"] * factor}

    example = ((torch.ones(2), torch.ones(2)), 3.0)
    torch.export.save(torch.export.export(Nested(), example, {"table": {"k": torch.ones(2)}}), tmp_path / "p.pt2")
    loaded = load(ModelRef(str(tmp_path / "p.pt2"), Kind.EXPORTED))
    feeds = {"table_k": 10 * X, "pair_1": X, "pair_0": 5 * X}
    results = dict(run(loaded, feeds))
    np.testing.assert_array_equal(results["difference"], 4 * X)
    np.testing.assert_array_equal(results["scaled"], 30 * X)


def test_feeds_are_not_changed_and_results_share_no_memory() -> None:
    class InPlace(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            x.add_(1)
            return x, x.view(-1), x

    feeds = {"x": X.copy()}
    results = [value for _, value in run(InPlace(), feeds)]
    np.testing.assert_array_equal(feeds["x"], X)
    results[0][0] = 99
    np.testing.assert_array_equal(results[1], X + 1)
    np.testing.assert_array_equal(results[2], X + 1)


def test_float64_is_more_exact_and_made_once() -> None:
    module = torch.nn.Linear(64, 1)
    loaded = wrap(module)
    values = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
    ((_, single),) = run(loaded, {"input": values})
    ((_, double),) = run(loaded, {"input": values}, "float64")
    weight, bias = (item.detach().numpy().astype(np.float64) for item in (module.weight, module.bias))
    np.testing.assert_allclose(double, values.astype(np.float64) @ weight.T + bias, rtol=1e-14)
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    assert module.weight.dtype == torch.float32
    copy = loaded.cache["float64"]
    run(loaded, {"input": values}, "float64")
    assert loaded.cache["float64"] is copy
    ((_, half),) = run(loaded, {"input": values}, "float16")
    assert half.dtype == np.float16


def test_a_fixed_type_is_said() -> None:
    class Fixed(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.argmax(), x.to(torch.float32)

    assert [value.dtype for _, value in run(Fixed(), {"x": X})] == [np.int64, np.float32]
    with pytest.raises(
        StageError, match=r"^output output_1 of the model in float64 is float32: a type is fixed in its"
    ):
        run(Fixed(), {"x": X}, "float64")


def test_failures_say_what_was_fed() -> None:
    with pytest.raises(StageError, match=r"^the model failed on inputs input=float32\[2\]: RuntimeError: "):
        run(torch.nn.Conv2d(3, 4, 3), {"input": X})
    with pytest.raises(ValueError, match=r"^dtype is 'int8'; it must be one of float16, float32, float64$"):
        run(torch.nn.ReLU(), {"input": X}, "int8")


def test_bfloat16_results_become_float32_and_sparse_ones_are_refused() -> None:
    class Brain(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.to(torch.bfloat16)

    class Sparse(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.to_sparse()

    ((_, value),) = run(Brain(), {"x": X})
    assert value.dtype == np.float32
    with pytest.raises(StageError, match=r"^the model's output output is not a dense tensor$"):
        run(Sparse(), {"x": X})


def test_torchscript_and_onnx(tmp_path: Path) -> None:
    from convert.models.load import load

    path = tmp_path / "s.pt"
    torch.jit.save(torch.jit.trace(Affine().eval(), (torch.ones(2), torch.ones(2))), path)
    script = load(ModelRef(str(path), Kind.TORCHSCRIPT))
    for dtype in (None, "float64"):
        ((_, value),) = run(script, {"scale": 2 * X, "x": X}, dtype)
        np.testing.assert_array_equal(value, 2 * X * X)
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    info = onnx.helper.make_tensor_value_info("x", 1, ["N"])
    out = onnx.helper.make_tensor_value_info("y", 1, ["N"])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "g", [info], [out])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")
    source = load(ModelRef(str(tmp_path / "m.onnx"), Kind.ONNX))
    ((name, value),) = run(source, {"x": X})
    assert name == "y"
    np.testing.assert_array_equal(value, -X)
    with pytest.raises(StageError, match=r"^an ONNX file cannot be run in float64: its types are fixed$"):
        run(source, {"x": X}, "float64")
    with pytest.raises(StageError, match=r"^the model failed on inputs x=float64\[2\]: InvalidArgument: "):
        run(source, {"x": X.astype(np.float64)})

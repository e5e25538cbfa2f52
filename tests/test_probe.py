"""Inputs that nobody said: which shapes are tried, which are taken, and what is said of it."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convert.errors import InputError
from convert.models.combine import combinations
from convert.models.guesses import Guess, Layer, guesses
from convert.models.zoo import ZOO
from convert.records import InputSpec, Kind, ModelRef
from convert.specs import ASSUMED, format_input, parse_input

pytest.importorskip("torch")
import torch
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


class Function(nn.Module):
    """Layers in order, and what is done with them."""

    def __init__(self, forward: Callable[..., Any], *layers: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.call = forward

    def forward(self, x: Any) -> Any:
        return self.call(self.layers, x)


class Pair(nn.Module):
    """The same with two inputs."""

    def __init__(self, forward: Callable[..., Any], *layers: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.call = forward

    def forward(self, x: Any, y: Any) -> Any:
        return self.call(self.layers, x, y)


def wrap(module: Any, **changes: Any) -> Any:
    """Loaded."""
    from convert.models.load import _live

    return replace(_live(module.eval(), ModelRef("nets.py", Kind.FACTORY)), **changes)


def found(module: Any, **changes: Any) -> str:
    """The inputs that are found, as on the command line; the note says them and where they are from."""
    from convert.models.probe import find_inputs

    torch.manual_seed(0)
    result = find_inputs(wrap(module, **changes))
    texts = [format_input(spec) for spec in result.specs]
    assert result.note.startswith(f"{ASSUMED} {', '.join(texts)} from ")
    for text, spec in zip(texts, result.specs, strict=True):
        assert f"--input '{text}'" in result.note
        assert parse_input(text) == spec
    return " ".join(texts)


def note(module: Any) -> str:
    """What is said of the inputs found, without the part that names them."""
    from convert.models.probe import find_inputs

    match = re.search(r" from (.*); pin that with ", find_inputs(wrap(module)).note)
    assert match is not None
    return match[1]


def nothing(module: Any, **changes: Any) -> str:
    """Why no inputs are found."""
    from convert.models.probe import NothingFound, find_inputs

    with pytest.raises(NothingFound) as caught:
        find_inputs(wrap(module, **changes))
    return str(caught.value)


LAYERS = [
    (lambda: nn.Linear(8, 4), "input=float32[N,8]"),
    (lambda: nn.Linear(8, 4).double(), "input=float64[N,8]"),
    (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 3)), "input=float32[N,1,8,8]"),
    (lambda: nn.Sequential(nn.Conv2d(5, 2, 3)), "input=float32[N,5,28,28]"),
    (lambda: nn.Sequential(nn.Conv2d(3, 2, 9, stride=9)), "input=float32[N,3,224,224]"),
    (lambda: nn.Sequential(nn.Conv1d(4, 2, 3)), "input=float32[N,4,1024]"),
    (lambda: nn.Sequential(nn.Conv3d(2, 2, 3)), "input=float32[N,2,8,32,32]"),
    (lambda: nn.ConvTranspose2d(6, 2, 3), "input=float32[N,6,1,1]"),
    (lambda: nn.Embedding(10, 4), "input=int64[N,16]{0..9}"),
    (lambda: nn.EmbeddingBag(10, 4), "input=int64[N,16]{0..9}"),
    (lambda: nn.LSTM(3, 2, batch_first=True), "input=float32[N,16,3]"),
    (lambda: nn.GRU(3, 2), "input=float32[16,N,3]"),
    (lambda: nn.LayerNorm(6), "input=float32[N,16,6]"),
    (lambda: nn.LayerNorm([4, 5]), "input=float32[N,4,5]"),
    (lambda: nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), "src=float32[N,16,8]"),
    (
        lambda: nn.MultiheadAttention(8, 2),
        "query=float32[16,N,8] key=float32[16,N,8] value=float32[16,N,8]",
    ),
    (lambda: Function(lambda layers, x: layers[0](x.unsqueeze(1)).mean(-1), nn.Conv1d(1, 2, 3)), "x=float32[N,1024]"),
    (lambda: Pair(lambda layers, x, y: layers[0](x) - layers[0](y), nn.Linear(5, 2)), "x=float32[N,5] y=float32[N,5]"),
    (
        lambda: Pair(lambda layers, x, y: layers[0](x) - layers[1](y), nn.Linear(5, 2), nn.Linear(7, 2)),
        "x=float32[N,5] y=float32[N,7]",
    ),
    (
        lambda: Pair(lambda e, x, y: e[0](x) - e[1](y).mean(1), nn.Embedding(9, 2), nn.Embedding(7, 2)),
        "x=int64[N]{0..8} y=int64[N,16]{0..6}",
    ),
    (lambda: Pair(lambda layers, x, y: layers[0](x) * y[:, None], nn.Linear(5, 2)), "x=float32[N,5] y=float32[N]"),
]


@pytest.mark.parametrize(("make", "inputs"), LAYERS, ids=[inputs for _, inputs in LAYERS])
def test_inputs_are_found_from_the_first_layers(make: Callable[[], Any], inputs: str) -> None:
    assert found(make()) == inputs


class Scripted(nn.Module):
    """A network that stays the same as a module, script, trace and frozen graph."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = nn.Conv2d(6, 6, 3, groups=6)
        self.out = nn.Conv2d(6, 2, 1)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return self.out(self.depth(x)) * scale


def test_torchscript_of_every_kind() -> None:
    net = Scripted().eval()
    trace = torch.jit.trace(net, torch.ones(1, 6, 9, 9))
    assert [found(item) for item in (net, torch.jit.script(net), trace)] == ["x=float32[N,6,28,28]"] * 3
    for layers, inputs in (
        ((nn.Conv2d(3, 2, 3), nn.ReLU()), "input=float32[N,3,224,224]"),
        ((nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)), "input=float32[N,8]"),
        ((nn.Embedding(9, 4), nn.Linear(4, 2)), "input=int64[N,16]{0..8}"),
    ):
        frozen = torch.jit.freeze(torch.jit.script(nn.Sequential(*layers).eval()))
        assert not list(frozen.parameters())
        assert found(frozen) == inputs


ZOO_FOUND = {
    "mlp": "x=float32[N,24]",
    "multi_io": "left=float32[N,12] right=float32[N,20]",
    "masked_pool": "items=float32[N,16,16] keep=bool[N,16]",
    "detection": "image=float32[N,3,64,64]",
    "vit": "image=float32[N,3,32,32]",
    "text_encoder": "ids=int64[N,16]{0..99} mask=int64[N,16]{0..1}",
    "decoder": "ids=int64[N,16]{0..99}",
    "bilstm": "x=float32[N,16,12]",
    "video": "clip=float32[N,3,8,32,32]",
}


@pytest.mark.parametrize("name", ZOO_FOUND)
def test_inputs_of_reference_models(name: str) -> None:
    home, _, factory = ZOO[name].factory.partition(":")
    assert found(getattr(importlib.import_module(home), factory)()) == ZOO_FOUND[name]


def test_what_is_said_of_them() -> None:
    assert note(nn.Sequential(nn.Linear(8, 4))) == "0 (Linear, 8 features), which ran with batches of 2 and 3"
    assert note(nn.Conv2d(1, 2, 1)).startswith("the model itself (Conv2d, 1 channel), which ran ")
    mixing = Function(lambda layers, x: layers[0](x - x.mean(0)), nn.Linear(8, 4))
    assert note(mixing).endswith("which ran with batches of 2 and 3, though rows of a batch affect one another")
    constant = Function(lambda layers, x: layers[0](x).argmax(-1) * 0, nn.Linear(8, 4))
    assert note(constant).endswith("which ran with batches of 2 and 3, though other values gave the same output")


def test_a_trace_for_a_batch_of_one() -> None:
    module = Function(lambda layers, x: layers[0](x).reshape(1, 2, 2), nn.Linear(6, 4))
    assert found(module) == "x=float32[1,6]"
    assert note(module) == "layers.0 (Linear, 6 features), which ran with a batch of 1 only"


def test_a_sequence_is_not_taken_for_a_batch() -> None:
    """The weights of a trace do not say which axis is time: a row that depends on those before it shows it."""
    net = Function(lambda layers, x: layers[1](layers[0](x)[0]), nn.LSTM(6, 5), nn.Linear(5, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a trace freezes the checks of sizes, and says so
        trace = torch.jit.trace(net.eval(), torch.ones(4, 2, 6))
    assert found(trace) == "x=float32[16,N,6]"


class Wants(nn.Module):
    """Needs a number as well; the mask has a default and is left out."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, steps: int, mask: torch.Tensor | None = None) -> torch.Tensor:
        y = self.fc(x) * steps
        return y if mask is None else y * mask


@pytest.mark.parametrize("script", [False, True])
def test_a_parameter_that_is_no_tensor_must_be_fixed(script: bool) -> None:
    from convert.models.probe import find_inputs

    net = torch.jit.script(Wants()) if script else Wants()
    with pytest.raises(InputError) as caught:
        find_inputs(wrap(net))
    assert str(caught.value) == (
        "forward needs steps, which is no tensor but of the type int; fix it with --constant steps=VALUE"
    )
    assert found(net, constants={"steps": 2}) == "x=float32[N,4]"


def test_where_nothing_is_found_it_is_said_what_was_tried() -> None:
    assert nothing(nn.ReLU()) == "no layer of the model tells what it takes, so nothing was tried"

    class Optional(nn.Module):
        def forward(self, x: Any = None) -> Any:
            return x

    assert nothing(Optional()) == "every parameter of forward has a default, so nothing was tried"

    def fail(layers: Any, x: Any) -> Any:
        raise RuntimeError(f"not {tuple(x.shape)}")

    text = nothing(Function(fail, nn.Embedding(5, 2)))
    assert text == (
        "tried 13 shapes that its layers suggest, first x=int64[N,16]{0..4}: the model failed on inputs "
        "x=int64[2, 16]: RuntimeError: not (2, 16), and last x=int64[N]{0..4}: the model failed on inputs x=int64[2]: "
        "RuntimeError: not (2,)"
    )
    total = nothing(Function(lambda layers, x: layers[0](x).sum() * 0, nn.Linear(5, 2)))
    assert total.endswith(
        " shapes that its layers suggest; x=float32[N,5] ran, but no output has a row for each row of the batch"
    )


def test_settled_inputs_say_where_they_are_from() -> None:
    from convert.stages.inputs import settle_inputs

    said: list[str] = []
    settled = settle_inputs(wrap(nn.Linear(3, 2)), "/a/nets.py", (), None, said.append)
    assert (settled.specs, settled.probed) == ((InputSpec("input", "float32", ("N", 3)),), True)
    assert settled.notes[0].startswith(f"{ASSUMED} input=float32[N,3] from ")
    assert said == ["looking for the inputs, since none were given"]
    given = (InputSpec("x", "float32", (2, 3)),)
    assert settle_inputs(wrap(nn.Linear(3, 2)), "nets.py", given, None, said.append).specs == given
    samples = {"x": np.zeros((4, 3), np.float32)}
    assert settle_inputs(wrap(nn.Linear(3, 2)), "nets.py", (), samples, said.append).specs == (
        InputSpec("x", "float32", ("N", 3)),
    )
    with pytest.raises(InputError) as caught:
        settle_inputs(wrap(nn.ReLU()), "/a/nets.py", (), None, said.append)
    assert str(caught.value) == (
        "the inputs of nets.py are not known; give them with --input 'x=float32[N,3,224,224]' (repeatable) or with "
        "--samples FILE (no layer of the model tells what it takes, so nothing was tried)"
    )


def test_bfloat16_inputs_follow_the_module() -> None:
    from convert.stages.inputs import settle_inputs

    given = (parse_input("x=bfloat16[N,3]"), parse_input("m=bool[N]"))
    settled = settle_inputs(wrap(nn.Linear(3, 2).to(torch.bfloat16)), "nets.py", given, None, print)
    assert settled.specs == (InputSpec("x", "float32", ("N", 3)), InputSpec("m", "bool", ("N",)))
    assert settled.notes == ("bfloat16 inputs x taken as float32, like the weights",)
    with pytest.raises(InputError) as caught:
        settle_inputs(wrap(nn.Linear(3, 2)), "nets.py", given, None, print)
    assert str(caught.value) == (
        "--input x is bfloat16, which only modules with bfloat16 weights take (and these in float32 here); write "
        "float32"
    )
    with pytest.raises(InputError, match=r"gives a range to bfloat16; only integers can have one"):
        parse_input("x=bfloat16[2]{0..1}")


def test_a_source_that_was_tried_is_loaded_anew(tmp_path: Path) -> None:
    """What trying leaves behind in buffers must not be in the source that artifacts are compared with."""
    from convert.stages.running import open_source
    from convert.worker import Channel

    path = tmp_path / "counting_net.py"
    path.write_text(
        "import torch\n"
        "class Net(torch.nn.Linear):\n"
        "    calls = 0\n"
        "    def forward(self, x):\n"
        "        self.calls += 1\n"
        "        return super().forward(x)\n"
        "def make(): return Net(3, 2)\n",
        encoding="utf-8",
    )
    ref = {"path": str(path), "kind": "factory", "factory": "make"}
    opened = open_source({"ref": ref, "inputs": [], "dims": [], "samples": None, "half": False}, Channel(None, None))
    assert opened.specs == (InputSpec("x", "float32", ("N", 3)),)
    assert opened.source.loaded.module.calls == 0


def test_guesses_of_a_table_of_ids_stay_within_it() -> None:
    made = guesses(Layer("word", "Embedding", 100, "float32"))
    assert made[0] == Guess("word (Embedding, 100 rows)", "int64", ("N", 16), 99)
    assert {guess.high for guess in made} == {99}


def test_combinations_of_many_inputs_are_bounded() -> None:
    pools = [guesses(Layer(str(size), "Linear", size, "float32")) for size in range(2, 14)]
    some = list(combinations([f"x{index}" for index in range(9)], pools))
    assert len(some) == len(set(some)) < 1000
    assert [guess.shape for guess in some[0]] == [("N", size) for size in range(2, 11)]

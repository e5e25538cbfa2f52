"""Run by ``test_tflite_recurrent.py`` in a process of its own, since litert-torch is told to keep recurrent layers.

Prints, as JSON, name of the case -> largest error over the sizes, and the built-in operators of the file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import litert_torch
import torch
from ai_edge_litert.interpreter import Interpreter
from ai_edge_litert.tools import flatbuffer_utils
from torch import Tensor, nn

from convert.targets.tflite_graph import Graph
from convert.targets.tflite_loop import loops
from convert.targets.tflite_recurrent import keep_recurrent_layers
from convert.targets.tflite_resize import joined

SIZES = ((4, 5), (6, 9), (1, 2), (3, 7))


class Net(nn.Module):
    """An LSTM with states given and handed out, and one of each other kind after it."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(8, 5, bidirectional=True, batch_first=True, bias=False)
        self.tanh = nn.RNN(10, 6, batch_first=True)
        self.relu = nn.RNN(6, 6, batch_first=True, nonlinearity="relu")

    def forward(self, x: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
        """``[N, T, 3]``, ``[4, N, 4]`` twice."""
        y, (last, kept) = self.lstm(x, (hidden, memory))
        y, end = self.gru(y)
        return self.relu(self.tanh(y)[0])[0], last, kept, end


class Kept(nn.Module):
    """Only an LSTM's memory is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        """``[T, N, 3]`` to ``[1, N, 4]``."""
        memory: Tensor = self.lstm(x)[1][1]
        return memory


def feeds(name: str, size: tuple[int, int]) -> tuple[Tensor, ...]:
    """Random inputs for batch and length."""
    n, t = size
    if name == "all":
        return torch.randn(n, t, 3), torch.randn(4, n, 4), torch.randn(4, n, 4)
    return (torch.randn(t, n, 3),)


def batch_only(sizes: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """The same with one length."""
    return tuple((n, 5) for n, _ in sizes)


def convert(name: str, module: nn.Module, sizes: tuple[tuple[int, int], ...], folder: Path) -> Any:
    """The joined model."""
    made = []
    for at in (0, 1):
        file = folder / f"{name}{at}.tflite"
        litert_torch.convert(module, feeds(name, sizes[at])).export(str(file))
        made.append(loops(flatbuffer_utils.read_model_with_mutable_tensors(file)))
    return joined(*made)


def error(model: Any, name: str, module: nn.Module, sizes: tuple[tuple[int, int], ...]) -> float:
    """Largest distance from torch."""
    interpreter = Interpreter(model_content=bytes(flatbuffer_utils.convert_object_to_bytearray(model)))
    worst = 0.0
    for size in sizes:
        values = feeds(name, size)
        slots = sorted(interpreter.get_input_details(), key=lambda one: str(one["name"]))
        for slot, value in zip(slots, values, strict=True):
            interpreter.resize_tensor_input(slot["index"], value.shape)
        interpreter.allocate_tensors()
        for slot, value in zip(slots, values, strict=True):
            interpreter.set_tensor(slot["index"], value.numpy())
        interpreter.invoke()
        wanted = module(*values)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        found = [torch.from_numpy(interpreter.get_tensor(one["index"])) for one in interpreter.get_output_details()]
        assert [one.shape for one in found] == [one.shape for one in wanted]
        worst = max(worst, *(float((a - b).abs().max()) for a, b in zip(found, wanted, strict=True)))
    return worst


def main(folder: Path) -> None:
    """All cases."""
    torch.manual_seed(3)
    keep_recurrent_layers()
    report: dict[str, Any] = {}
    cases: tuple[tuple[str, str, type[nn.Module], tuple[tuple[int, int], ...]], ...] = (
        ("all", "all", Net, SIZES),
        ("memory", "memory", Kept, SIZES),
        ("batch", "memory", Kept, batch_only(SIZES)),
    )
    with torch.no_grad():
        for case, name, build, sizes in cases:
            module = build().eval()
            model = convert(name, module, sizes, folder)
            graph = Graph(model, model.subgraphs[0])
            operators = [graph.name_of(operator) for operator in graph.body.operators]
            report[case] = {"error": error(model, name, module, sizes), "loops": operators.count("WHILE")}
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

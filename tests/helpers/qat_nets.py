"""Networks for the tests of quantization-aware training, and what drives a target on a saved program."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import convert.qat
from convert.golden_io import CaseData, save_case
from convert.models.exported import open_program
from convert.qat import QatModule, read_ranges
from convert.records import Artifact, Case, Golden, InputSpec, IoEntry, Kind, OutputSpec
from convert.targets.base import BuildRequest

SHAPE = (1, 3, 8, 8)


def conv_norm(inputs: int, outputs: int, kernel: int = 3, groups: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs)]


class Plain(nn.Module):
    """Convolutions with ReLU, max pooling, two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *conv_norm(3, 8), nn.ReLU(), nn.MaxPool2d(2), *conv_norm(8, 16), nn.ReLU(inplace=True)
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(256, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 5))

    def forward(self, x: Tensor) -> Any:
        return self.head(self.body(x))


class Residual(nn.Module):
    """Sums of branches, with ReLU after the sum, and global pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(*conv_norm(3, 8), nn.ReLU())
        self.one = nn.Sequential(*conv_norm(8, 8), nn.ReLU(), *conv_norm(8, 8))
        self.two = nn.Sequential(*conv_norm(8, 8), nn.ReLU(), *conv_norm(8, 8))
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Any:
        x = self.stem(x)
        x = torch.relu(x + self.one(x))
        x = torch.relu(x + self.two(x))
        return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Mobile(nn.Module):
    """Inverted residuals as in MobileNetV2: expand, depthwise, project, with ReLU6."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(*conv_norm(3, 8), nn.ReLU6())
        self.block = nn.Sequential(
            *conv_norm(8, 24, 1), nn.ReLU6(), *conv_norm(24, 24, groups=24), nn.ReLU6(), *conv_norm(24, 8, 1)
        )
        self.last = nn.Sequential(*conv_norm(8, 16, 1), nn.ReLU6())
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(16, 5))

    def forward(self, x: Tensor) -> Any:
        x = self.stem(x)
        x = self.last(x + self.block(x))
        return self.head(x.mean([2, 3]))


class Concat(nn.Module):
    """Branches joined: shared scales through pooling, a gate with a prescribed scale, two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Sequential(*conv_norm(3, 8), nn.ReLU())
        self.right = nn.Conv2d(3, 4, 1)
        self.join = nn.Sequential(*conv_norm(20, 8, 1), nn.SiLU())
        self.head, self.other = nn.Linear(8, 5), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Any:
        a, b = self.left(x), self.right(x)
        a, b, c = nn.functional.max_pool2d(a, 2), nn.functional.avg_pool2d(b, 2), nn.functional.max_pool2d(a, 2)
        joined = self.join(torch.cat([a, b, torch.sigmoid(c)], 1))
        pooled = joined.mean((2, 3))
        return self.head(pooled), torch.softmax(self.other(pooled), 1)


NETWORKS: Mapping[str, Callable[[], nn.Module]] = {
    "plain": Plain,
    "residual": Residual,
    "mobile": Mobile,
    "concat": Concat,
}


def trained_like(make: Callable[[], nn.Module]) -> nn.Module:
    """A network in eval mode with batch norms as training leaves them: no two channels alike."""
    torch.manual_seed(0)
    net = make().eval()
    for part in net.modules():
        if isinstance(part, nn.BatchNorm2d):
            for value, low, high in (
                (part.running_mean, -0.5, 0.5),
                (part.running_var, 0.2, 2.0),
                (part.weight, 0.5, 2.0),
                (part.bias, -0.5, 0.5),
            ):
                assert value is not None
                nn.init.uniform_(value, low, high)
    return net


def learned(net: nn.Module, steps: int = 12) -> QatModule:
    """``net`` prepared, with ranges learned on random images, in eval mode."""
    qat: QatModule = convert.qat.prepare(net, torch.zeros(SHAPE))
    with torch.no_grad():
        for _ in range(steps):
            qat(torch.randn(16, *SHAPE[1:]))
    qat.eval()
    return qat


def flat(outputs: Any) -> list[Tensor]:
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def request_for(folder: Path, file: Path) -> BuildRequest:
    """What a target gets for the program in ``file``: three draws, and its learned ranges."""
    program = open_program(str(file), trust_pickle=False)
    outputs = flat(program.module(check_guards=False)(torch.zeros(SHAPE)))
    specs = tuple(OutputSpec(f"output_{i}", "float32", tuple(value.shape)) for i, value in enumerate(outputs))
    rng, cases = np.random.default_rng(5), []
    for index in range(3):
        feeds = {"x": rng.standard_normal(SHAPE).astype(np.float32)}
        save_case(folder / f"draw{index}.npz", CaseData(feeds, {}, {}))
        cases.append(Case(f"opt-draw{index}", "draw", {}, index, f"draw{index}.npz"))
    golden = Golden(Kind.EXPORTED, "m", 1, 4, (InputSpec("x", "float32", SHAPE),), (), specs, tuple(cases), "float64")
    source = SimpleNamespace(exported=program)
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    return BuildRequest(
        "tflite",
        "int8",
        "ai-edge-quantizer",
        golden,
        folder,
        folder,
        scratch,
        source=lambda: source,
        ranges=read_ranges(file),
    )


def tflite_float(request: BuildRequest, file: Path) -> BuildRequest:
    """Convert the program to float32 TFLite by litert-torch, and make that the base of the request."""
    from dataclasses import replace

    assert request.source is not None
    quiet = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        warnings.simplefilter("ignore")
        import litert_torch

        logging.disable(logging.WARNING)
        try:
            litert_torch.convert(request.source().exported.module(), (torch.zeros(SHAPE),)).export(str(file))
        finally:
            logging.disable(logging.NOTSET)
    entries = [IoEntry("x", "input", "serving_default_args_0", "float32", SHAPE)]
    for index, spec in enumerate(request.golden.outputs):
        shape = tuple(int(size) for size in spec.shape)
        entries.append(IoEntry(spec.name, "output", f"serving_default_output_{index}_output", "float32", shape))
    base = Artifact("tflite", "float32", "litert-torch", (file.name,), tuple(entries))
    return replace(request, base=base, base_folder=file.parent)


def run_tflite(content: bytes, images: Any) -> list[Any]:
    """Outputs of a TFLite file on the built-in kernels for each image, batched again, in the order of the signature."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    run = interpreter.get_signature_runner()
    rows = [run(args_0=image[None]) for image in images]
    return [np.concatenate([row[f"output_{index}"] for row in rows]) for index in range(len(rows[0]))]

"""Float, post-training int8 and trained int8 side by side, into docs/quantization.md: ``python scripts/qat_table.py``.

Everything is measured on ``.tflite`` files with the built-in kernels; the ranges of the post-training file are those of
a thousand training images (min/max). Takes about four minutes on two cores; seeds are fixed. The running interpreter
must have the core toolchain.
"""

from __future__ import annotations

import contextlib
import io
import logging
import statistics
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import qat_task as task
import torch
from torch import Tensor

import convert.qat
from convert.golden_io import CaseData, save_case
from convert.models.exported import open_program
from convert.records import Artifact, Case, Golden, InputSpec, IoEntry, Kind, OutputSpec, Quantization
from convert.targets.base import BuildRequest
from convert.targets.tflite_measure import measure
from convert.targets.tflite_operators import read_operators
from convert.targets.tflite_quant import Prepared, quantize
from convert.targets.tflite_ranges import learned_ranges

PAGE = Path(__file__).resolve().parent.parent / "docs" / "quantization.md"
BEGIN, END = "<!-- qat table: begin -->", "<!-- qat table: end -->"
SEEDS = (0, 1, 2, 3)
SHAPE = (1, 1, 8, 8)
IO = (
    IoEntry("image", "input", "serving_default_args_0", "float32", SHAPE),
    IoEntry("output", "output", "serving_default_output_0_output", "float32", (1, 10)),
)


def main() -> None:
    """Measure every seed and write the table between the two marks of the page."""
    torch.set_num_threads(2)
    data = task.data()
    rows = []
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(_seed(seed, data, Path(folder)))
        print(f"seed {seed}: float {rows[-1][0]:.1f} %, PTQ {rows[-1][1]:.1f} %, QAT {rows[-1][2]:.1f} %", flush=True)
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{PAGE} lacks the marks {BEGIN} and {END}; put them where the table belongs")
    PAGE.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{after}", encoding="utf-8")


def table(rows: list[tuple[float, float, float]]) -> str:
    """Accuracy per seed in percent, and mean and standard deviation below."""
    lines = [
        "| seed | float32 | int8 after training (PTQ) | int8 in training (QAT) | gain of QAT |",
        "|---|---|---|---|---|",
    ]
    for seed, (whole, after, during) in zip(SEEDS, rows, strict=True):
        lines.append(f"| {seed} | {whole:.1f} | {after:.1f} | {during:.1f} | {during - after:+.1f} |")
    columns = [*zip(*rows, strict=True), [row[2] - row[1] for row in rows]]
    cells = [f"{statistics.mean(column):.1f} ± {statistics.stdev(column):.1f}" for column in columns]
    return "\n".join([*lines, f"| mean | {' | '.join(cells)} |"])


def _seed(seed: int, data: tuple[Tensor, ...], folder: Path) -> tuple[float, float, float]:
    images, labels, held, answers = data
    net = task.trained(seed, images, labels)
    plain = _tflite(net, folder / "float.tflite")
    batches = ({"image": image[None].numpy()} for image in images[:1000])
    ranges, _ = measure(plain, IO, batches, Quantization(), 8)
    ptq = quantize(Prepared(plain.read_bytes(), ranges, ()), 8)
    torch.manual_seed(seed)
    qat = convert.qat.prepare(net, images[:1])
    task.fit(qat, images, labels, task.QAT_EPOCHS, task.QAT_RATE)
    trained = _from_training(qat, folder)
    for content in (ptq, trained):
        floating = read_operators(content).floating
        if floating:
            raise SystemExit(f"a file is not all integer: {floating}")
    return _accuracy(plain.read_bytes(), held, answers), *(_accuracy(c, held, answers) for c in (ptq, trained))


def _from_training(qat: Any, folder: Path) -> bytes:
    program = folder / "qat.pt2"
    convert.qat.save(qat, program)
    opened = open_program(str(program), trust_pickle=False)
    file = _tflite(opened.module(), folder / "qat_float.tflite")
    save_case(folder / "draw.npz", CaseData({"image": np.random.default_rng(0).random(SHAPE, np.float32)}, {}, {}))
    golden = Golden(
        Kind.EXPORTED,
        "Narrow",
        0,
        0,
        (InputSpec("image", "float32", SHAPE),),
        (),
        (OutputSpec("output", "float32", (1, 10)),),
        (Case("opt-draw0", "draw", {}, 0, "draw.npz"),),
        "",
    )
    request = BuildRequest(
        "tflite",
        "int8",
        "ai-edge-quantizer",
        golden,
        folder,
        folder,
        folder,
        base=Artifact("tflite", "float32", "litert-torch", (file.name,), IO),
        base_folder=folder,
        source=lambda: SimpleNamespace(exported=opened),
        ranges=convert.qat.read_ranges(program),
    )
    ranges, _ = learned_ranges(request, file)
    return quantize(Prepared(file.read_bytes(), ranges, ()), 8)


def _tflite(module: Any, file: Path) -> Path:
    with _quiet():
        import litert_torch

        litert_torch.convert(module, (torch.zeros(SHAPE),)).export(str(file))
    return file


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def _accuracy(content: bytes, images: Tensor, labels: Tensor) -> float:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    run = Interpreter(model_content=content, experimental_op_resolver_type=kernels).get_signature_runner()
    found = [int(run(args_0=image[None].numpy())["output_0"].argmax()) for image in images]
    return 100 * float(np.mean(np.array(found) == labels.numpy()))


if __name__ == "__main__":
    main()

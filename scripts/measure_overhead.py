"""Measure what the pipeline adds to the toolkits' own time; the table goes into docs/performance.md.

    .venv/bin/python scripts/measure_overhead.py [ROUNDS]

Per model, in turns: the conversions that a user would run by hand, each in a fresh process of its toolchain and without
any check, and `convert --jobs 1 --bench-seconds 0` for the same targets. Wall seconds of whole processes.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from convert.toolchains import find

MODELS = {
    "mlp": ("convert.models.zoo_mixed:mlp", "x=float32[4,24]"),
    "mobilenet": ("convert.models.zoo_vision:mobilenet", "image=float32[4,3,32,32]"),
}
LOAD = """
import importlib, torch, warnings
warnings.filterwarnings("ignore")
module, name = {factory!r}.split(":")
net = getattr(importlib.import_module(module), name)()
example = torch.randn({shape})
"""
BY_HAND = {
    "onnx": (
        "core",
        LOAD + "torch.onnx.export(net, (example,), 'm.onnx', dynamo=True, opset_version=18, verbose=False)",
    ),
    "tflite": ("core", LOAD + "import litert_torch\nlitert_torch.convert(net, (example,)).export('m.tflite')"),
    "tvm": (
        "tvm",
        "import onnx, tvm\nfrom tvm.relax.frontend.onnx import from_onnx\n"
        "module = from_onnx(onnx.load('m.onnx'), keep_params_in_input=False)\n"
        "tvm.compile(module, target=tvm.target.Target({{'kind': 'llvm'}})).export_library('m.so')",
    ),
}


def by_hand(factory: str, shape: str, folder: str) -> float:
    """Seconds of the three conversions, one process each."""
    start = time.monotonic()
    for toolchain, code in BY_HAND.values():
        environment = find(toolchain)
        if environment is None:
            raise SystemExit(f"the toolchain {toolchain} is missing: make toolchains")
        text = code.format(factory=factory, shape=shape)
        subprocess.run([environment.python, "-c", text], cwd=folder, check=True, capture_output=True)
    return time.monotonic() - start


def by_convert(factory: str, spec: str, folder: str) -> tuple[float, dict[str, float]]:
    """Seconds of the command, and what its report says of them."""
    start = time.monotonic()
    command = [sys.executable, "-m", "convert", factory, "--input", spec, "--target", "onnx,tflite,tvm", "--jobs", "1"]
    command += ["--bench-seconds", "0", "--quiet", "--out", f"{folder}/out"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    seconds = json.loads(Path(folder, "out", "report.json").read_text(encoding="utf-8"))["seconds"]
    return time.monotonic() - start, dict(seconds)


def main() -> None:
    """Print one Markdown row per model: medians over the rounds."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print("| model | by hand | convert | source run | exports | builds | checks | parent itself | ratio (spread) |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, (factory, spec) in MODELS.items():
        shape = spec.partition("[")[2].rstrip("]")
        rows = []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                rows.append((by_hand(factory, shape, folder), *by_convert(factory, spec, folder)))
        print(_row(name, rows))


def _row(name: str, rows: list[tuple[float, float, dict[str, float]]]) -> str:
    def worker(*stages: str) -> float:
        return statistics.median(sum(seconds.get(f"workers.{one}", 0.0) for one in stages) for _, _, seconds in rows)

    inside = [sum(value for key, value in seconds.items() if key.startswith("workers.")) for _, _, seconds in rows]
    parent = statistics.median(total - spent for (_, total, _), spent in zip(rows, inside, strict=True))
    ratios = sorted(total / hand for hand, total, _ in rows)
    cells = [
        statistics.median(hand for hand, _, _ in rows),
        statistics.median(total for _, total, _ in rows),
        worker("golden"),
        worker("export", "simplify"),
        worker("build"),
        worker("check"),
        parent,
    ]
    figures = " | ".join(f"{value:.1f} s" for value in cells)
    return f"| {name} | {figures} | {statistics.median(ratios):.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f}) |"


if __name__ == "__main__":
    main()

"""The files that `make bench` compares: those of `convert`, and those of each toolkit's own command."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import bench_nets

from convert.toolchains import find

HERE = Path(__file__).resolve().parent
NETS = HERE / "bench_nets.py"


@dataclass(frozen=True)
class Made:
    """A file and what it took; ``problem`` where there is none.

    Attributes:
        what: see `bench_contender.py`.
        seconds: wall time of building it, its proof not counted.
        error: largest error as a share of its limit; None for what nobody checked.
    """

    name: str
    what: str
    file: Path | None
    size: int = 0
    seconds: float = 0.0
    error: float | None = None
    problem: str = ""


def by_convert(net: str, name: str, targets: str, out: Path, *words: str) -> list[Made]:
    """Run the command; one entry for each target."""
    factory, spec = bench_nets.NETS[net]
    command = [sys.executable, "-m", "convert", f"{NETS}:{factory}", "--input", spec, "--target", targets]
    command += ["--bench-seconds", "0", "--quiet", "--jobs", "1", "--timeout", "7200", "--out", str(out), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = out / "report.json"
    if not report.is_file():
        raise RuntimeError(f"{' '.join(command)} left no report: {done.stderr[-2000:]}")
    made = []
    for row in json.loads(report.read_text(encoding="utf-8"))["artifacts"]:
        label = f"{row['target']} {name}".strip()
        if row["status"] != "passed":
            made.append(Made(label, row["target"], None, problem=row["reason"]))
            continue
        files = [file for file in row["files"] if not file["path"].endswith("manifest.json")]
        main = next(file for file in files if Path(file["path"]).stem == "model")
        share = max((check["figure"] / check["limit"] for check in row["checks"] if check["limit"]), default=None)
        taken = next(route for route in row["routes"] if route["status"] == "passed")
        size = sum(file["size"] for file in files)
        made.append(Made(label, row["target"], out / main["path"], size, taken["seconds"], share))
    return made


#: What a user would run without this project, and the file that it leaves.
OWN = {
    "torch.onnx.export": (
        "onnx",
        "core",
        "torch.onnx.export(net, (x,), 'own.onnx', dynamo=True, external_data=False, verbose=False)",
        "own.onnx",
    ),
    "litert-torch": (
        "tflite",
        "core",
        "import litert_torch\nlitert_torch.convert(net, (x,)).export('own.tflite')",
        "own.tflite",
    ),
    "onnx2tf": (
        "tflite",
        "onnx2tf",
        "import onnx2tf\nonnx2tf.convert('own.onnx', output_folder_path='saved', non_verbose=True)",
        "saved/own_float32.tflite",
    ),
    "tvm": (
        "tvm",
        "tvm",
        "import onnx, tvm\nfrom tvm.relax.frontend.onnx import from_onnx\n"
        "cpu = tvm.get_global_func('target.llvm_get_system_cpu')()\n"
        "module = from_onnx(onnx.load('own.onnx'), keep_params_in_input=False)\n"
        "target = tvm.target.Target({'kind': 'llvm', 'mcpu': cpu})\n"
        "tvm.compile(module, target=target).export_library('own.so')",
        "own.so",
    ),
}


def by_toolkit(net: str, folder: Path) -> list[Made]:
    """Each toolkit's own command, in a fresh process; onnx2tf and TVM start from torch's own graph."""
    factory, spec = bench_nets.NETS[net]
    shape = spec.partition("[")[2].rstrip("]")
    load = f"import sys, torch\nsys.path.insert(0, {str(HERE)!r})\nimport bench_nets\n"
    load += f"net, x = bench_nets.{factory}(), torch.randn({shape})\n"
    made = []
    for name, (what, toolchain, code, file) in OWN.items():
        environment = find(toolchain)
        if environment is None:
            raise RuntimeError(f"the toolchain {toolchain} is missing: make toolchains")
        text = load + code if toolchain == "core" else code
        start = time.monotonic()
        done = subprocess.run(
            [str(environment.python), "-c", text], cwd=folder, capture_output=True, text=True, check=False, timeout=900
        )
        seconds, path = time.monotonic() - start, folder / file
        if done.returncode or not path.is_file():
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            made.append(Made(f"{name}'s own", what, None, problem=last[:120]))
        else:
            made.append(Made(f"{name}'s own", what, path, path.stat().st_size, seconds))
    return made

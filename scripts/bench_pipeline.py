"""What the pipeline costs: its own time per target, fan-out against the slowest target, memory against model size."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import bench_nets
import bench_page
import psutil
from bench_make import NETS

NET = "MobileNetV2-224"
TARGETS = ("onnx", "tflite", "tvm")
SIZES_MB = (1, 16, 128, 512, 2048)
ROUNDS = 3
STAGES = ("export", "simplify", "build", "check", "golden")


def run(source: str, spec: str, targets: str, *words: str) -> tuple[float, float, dict[str, float]]:
    """Wall seconds, peak memory in MiB of all processes together, and the seconds in the report."""
    with tempfile.TemporaryDirectory(prefix="convert-bench-") as folder:
        command = [
            sys.executable,
            "-m",
            "convert",
            source,
            "--input",
            spec,
            "--target",
            targets,
            "--bench-seconds",
            "0",
        ]
        command += ["--quiet", "--out", f"{folder}/out", *words]
        start = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=folder, text=True)
        watch = Watch(process.pid)
        _, errors = process.communicate()
        seconds, peak = time.monotonic() - start, watch.stop()
        report = Path(folder, "out", "report.json")
        if process.returncode not in (0, 1) or not report.is_file():
            raise RuntimeError(f"{' '.join(command)}: {errors[-2000:]}")
        return seconds, peak, dict(json.loads(report.read_text(encoding="utf-8"))["seconds"])


class Watch(threading.Thread):
    """The largest sum of resident memory that a process and its children have at one time."""

    def __init__(self, pid: int) -> None:
        """Begin at once."""
        super().__init__(daemon=True)
        self._process, self._done, self._peak = psutil.Process(pid), threading.Event(), 0
        self.start()

    def run(self) -> None:
        """Look ten times a second."""
        while not self._done.wait(0.1):
            try:
                family = [self._process, *self._process.children(recursive=True)]
            except psutil.Error:
                return
            total = 0
            for one in family:
                try:
                    total += one.memory_info().rss
                except psutil.Error:
                    continue
            self._peak = max(self._peak, total)

    def stop(self) -> float:
        """The peak in MiB."""
        self._done.set()
        self.join()
        return self._peak / 2**20


def overhead() -> list[str]:
    """Per target: the whole command, and what of it is neither the toolkit's build nor the export."""
    factory, spec = bench_nets.NETS[NET]
    rows = ["| target | whole | export | build | checks | source run | the rest |", "|---|---|---|---|---|---|---|"]
    for target in TARGETS:
        runs = [run(f"{NETS}:{factory}", spec, target, "--jobs", "1") for _ in range(ROUNDS)]

        def middle(*stages: str, runs: list[tuple[float, float, dict[str, float]]] = runs) -> float:
            return statistics.median(sum(told.get(f"workers.{one}", 0.0) for one in stages) for _, _, told in runs)

        whole = statistics.median(seconds for seconds, _, _ in runs)
        parts = [middle("export", "simplify"), middle("build"), middle("check"), middle("golden")]
        rest = statistics.median(
            seconds - sum(told.get(f"workers.{one}", 0.0) for one in STAGES) for seconds, _, told in runs
        )
        figures = " | ".join(f"{value:.1f} s" for value in (whole, *parts, rest))
        rows.append(f"| {target} | {figures} |")
        print(rows[-1], flush=True)
    return rows


def fan_out() -> str:
    """All targets by one command, against each alone."""
    factory, spec = bench_nets.NETS[NET]
    ratios, walls = [], []
    for _ in range(ROUNDS):
        alone = [run(f"{NETS}:{factory}", spec, target)[0] for target in TARGETS]
        together = run(f"{NETS}:{factory}", spec, ",".join(TARGETS))[0]
        ratios.append(together / max(alone))
        walls.append((together, max(alone), sum(alone)))
    together, slowest, total = (statistics.median(column) for column in zip(*walls, strict=True))
    return (
        f"All of {', '.join(TARGETS)} by one command take {together:.0f} s, the slowest alone {slowest:.0f} s, one "
        f"after the other {total:.0f} s: {statistics.median(ratios):.2f} times the slowest "
        f"({min(ratios):.2f}–{max(ratios):.2f} in {ROUNDS} rounds)."
    )


def memory() -> list[str]:
    """Peak memory of all processes for models of linear layers that grow."""
    rows = ["| weights | target | wall | peak memory | times the weights |", "|---|---|---|---|---|"]
    for size in SIZES_MB:
        with tempfile.TemporaryDirectory(prefix="convert-bench-") as folder:
            file = Path(folder) / "large.py"
            # Layers of 4 MB, so that depth grows and not width.
            width, layers = (512, 1) if size == 1 else (1024, size // 4)
            file.write_text(
                "import torch\n\n\ndef net():\n    torch.manual_seed(0)\n"
                f"    layers = [torch.nn.Linear({width}, {width}) for _ in range({layers})]\n"
                "    return torch.nn.Sequential(*layers).eval()\n"
            )
            seconds, peak, _ = run(f"{file}:net", f"x=float32[1,{width}]", "onnx", "--timeout", "1800")
        rows.append(f"| {size} MB | onnx | {seconds:.0f} s | {peak:.0f} MiB | {peak / size:.1f} |")
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Write all three."""
    bench_page.put("overhead", "\n".join(overhead()))
    bench_page.put("fan-out", fan_out())
    bench_page.put("memory", "\n".join(memory()))


if __name__ == "__main__":
    main()

"""Write docs/tensorrt.md: what can be said without a GPU of every reference model for trt and trt-rtx.

It takes some 10 minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from convert.models.zoo import ZOO

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tensorrt.md"
PRECISIONS = ("float32", "float16", "int8")
MARK = "<!-- made by scripts/trt_table.py -->"


def report_of(*words: str) -> dict[str, Any]:
    """Convert one model to both targets; int8 is calibrated with drawn inputs, so its ranges are not those of use."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "convert", *words, "--target", "trt,trt-rtx", "--calibration", "random"]
        command += ["--precision", ",".join(PRECISIONS), "--bench-seconds", "0", "--quiet", "--out", f"{folder}/out"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
        file = Path(folder, "out", "report.json")
        if not file.is_file():
            raise RuntimeError(f"converting {words[0]} left no report: {done.stderr[-2000:]}")
        return dict(json.loads(file.read_text(encoding="utf-8")))


def cell(report: dict[str, Any], precision: str) -> str:
    """Recipe, gate and engine of one precision."""
    by = {row["target"]: row for row in report["artifacts"] if row["precision"] == precision}
    recipe, engine = by["trt"], by["trt-rtx"]
    if recipe["status"] == "failed":
        return f"refused: {_short(recipe['reason'])}"
    gate = recipe["gate"]
    verdict = gate["verdict"] if gate["verdict"] == "passed" else f"{gate['verdict']}: {_short(gate['reason'])}"
    if engine["status"] == "failed":
        return f"recipe; gate {verdict}; no engine: {_short(engine['reason'])}"
    size = sum(file["size"] for file in engine["files"] if file["path"].endswith(".engine"))
    return f"recipe; gate {verdict}; engine {size / 2**20:.1f} MiB, {engine['seconds']:.1f} s"


def _short(text: str) -> str:
    text = text.replace("|", "\\|").removeprefix("recipe: ").removeprefix("engine: ")
    return text if len(text) <= 160 else text[:157] + "..."


def line(name: str, report: dict[str, Any]) -> str:
    """One row of the table."""
    return f"| {name} | " + " | ".join(cell(report, precision) for precision in PRECISIONS) + " |"


def main() -> None:
    """Convert every model and write the table into the page."""
    rows = []
    for name, reference in ZOO.items():
        words = [reference.factory]
        words += [word for text in reference.inputs for word in ("--input", text)]
        words += [word for text in reference.dims for word in ("--dim", text)]
        rows.append(line(name, report_of(*words)))
        print(rows[-1], flush=True)
    head = ["| model | float32 | float16 | int8 |", "|---|---|---|---|"]
    page = PAGE.read_text(encoding="utf-8").split(MARK)[0]
    PAGE.write_text(page + "\n".join([MARK, "", *head, *rows, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()

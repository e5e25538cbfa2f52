"""Convert every reference model for every target on this host; write docs/coverage.json and docs/coverage.md.

    python scripts/coverage_table.py                    # all of them, about 10 minutes on two cores
    python scripts/coverage_table.py --model mlp,lstm   # some rows; the others stay as they are

A target that fails with dynamic sizes is tried once more with fixed ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import coverage_file
from coverage_cells import CPU_TARGETS, Row, report_of, row_of
from coverage_file import Zoo

from convert.models.zoo import ZOO
from convert.toolchains import find


def measure(model: str) -> tuple[Row, dict[str, dict[str, str]]]:
    """The row of ``model``, and the versions of the toolchains that made it."""
    report = report_of(model)
    row = row_of(report)
    if row.gaps:
        row = row_of(report, report_of(model, row.gaps, fixed=True))
    say = ", ".join(f"{target} {cell.route or cell.status}" for target, cell in row.targets.items())
    print(f"{model}: {say} ({report['seconds']['total']:.0f} s)", flush=True)
    return row, report["toolchains"]


def add(model: str, row: Row, toolchains: dict[str, dict[str, str]]) -> None:
    """Put a row into the file, which is whole after each one."""
    before = coverage_file.load()
    rows = (before.zoo.models if before.zoo is not None else {}) | {model: row}
    known = before.zoo.made.toolchains if before.zoo is not None else {}
    made = coverage_file.made_now(dict(sorted((known | toolchains).items())))
    zoo = Zoo(made, {name: rows[name] for name in ZOO if name in rows})
    coverage_file.save(replace(before, zoo=zoo))


def main(words: Sequence[str]) -> int:
    """Make the table; 0 when every wanted row was made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="names with commas between them; by default all of the zoo")
    parser.add_argument("--jobs", type=int, default=2, help="models side by side")
    options = parser.parse_args(words)
    models = options.model.split(",") if options.model else list(ZOO)
    unknown = [name for name in models if name not in ZOO]
    if unknown:
        parser.error(f"there is no reference model {unknown[0]!r}; choose from {', '.join(ZOO)}")
    missing = [name for name in ("core", "onnx2tf", "tvm") if find(name) is None]
    if missing:
        parser.error(f"the toolchain {missing[0]} is not installed, so the table would be wrong: make toolchains")
    with ThreadPoolExecutor(options.jobs) as pool:
        for model, (row, toolchains) in zip(models, pool.map(measure, models), strict=True):
            add(model, row, toolchains)
    zoo = coverage_file.load().zoo
    rows = zoo.models.values() if zoo is not None else ()
    for target in CPU_TARGETS:
        print(f"{target}: {sum(row.targets[target].passed for row in rows)} of {len(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

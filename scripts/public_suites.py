"""Run the public suites that come with the packages; write their success rates into docs/coverage.json and .md.

    python scripts/public_suites.py                                  # every suite on every target, default samples
    python scripts/public_suites.py --suite onnx-node --target tvm --sample all
    python scripts/public_suites.py --suite export-db --print        # show every item, write nothing

A sample is drawn with ``--seed`` from the sorted names of the items, so that it is the same everywhere.
"""

from __future__ import annotations

import argparse
import functools
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import coverage_file
from coverage_cells import shorten
from coverage_file import SuiteTally, Tally
from suites.registry import SUITES, Suite
from suites.runner import Child, Result, Step, count, run_steps

from convert.toolchains import find

SEED = 20
_SECONDS = 60.0


@functools.cache
def python_of(toolchain: str) -> Path:
    """The interpreter of a toolchain; ends the program where it is not installed."""
    found = find(toolchain)
    if found is None:
        raise SystemExit(f"the toolchain {toolchain} is not installed: make toolchains")
    return found.python


def items_of(suite: Suite, work: Path) -> list[str]:
    """The names of all items of ``suite``, asked from a child process."""
    child = Child(Step("items", python_of("core"), f"suites.{suite.module}:items"), work)
    try:
        answer = child.ask({}, 300.0)
    finally:
        child.end()
    if "value" not in answer:
        raise SystemExit(f"the items of {suite.name} could not be listed: {answer}")
    return list(answer["value"])


def draw(items: Sequence[str], size: int | None, seed: int) -> list[str]:
    """``size`` of ``items``, in order; all of them for None or where there are no more.

    What stands before a slash is a group, and no group gives a second item before every other gave one: half of
    torch's module inputs are for one and the same loss.
    """
    if size is None or size >= len(items):
        return list(items)
    shuffled = sorted(items)
    random.Random(seed).shuffle(shuffled)  # noqa: S311  (no secret)
    seen = Counter[str]()
    turns = []
    for place, item in enumerate(shuffled):
        group = item.partition("/")[0]
        turns.append((seen[group], place, item))
        seen[group] += 1
    return sorted(item for _, _, item in sorted(turns)[:size])


def steps_of(suite: Suite, target: str) -> list[Step]:
    """The phases of ``suite`` for ``target`` with the interpreters that run them."""
    return [Step(phase.name, python_of(phase.toolchain), phase.function) for phase in suite.phases(target)]


def requests_of(suite: Suite, target: str, items: Sequence[str], work: Path) -> dict[str, dict[str, str]]:
    """What every phase is called with, per item; makes a folder for each below ``work``."""
    requests = {}
    for index, item in enumerate(items):
        folder = work / f"{index:05d}"
        folder.mkdir()
        requests[item] = {"item": item, "folder": str(folder), "target": target, "route": suite.routes[target]}
    return requests


def run_suite(suite: Suite, target: str, items: Sequence[str], seconds: float) -> dict[str, Result]:
    """Put ``items`` through every phase; ``seconds`` is the limit for one item in one phase."""
    start, done = time.monotonic(), Counter[str]()

    def say(phase: str) -> None:
        done[phase] += 1
        if done[phase] % 20 == 0:
            print(f"{suite.name} {target} {phase}: {done[phase]} ({time.monotonic() - start:.0f} s)", flush=True)

    with TemporaryDirectory(prefix="convert-suite-", ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        requests = requests_of(suite, target, items, work)
        results = run_steps(steps_of(suite, target), requests, work, seconds, say)
    lost = [item for item in items if item not in results]
    if lost:
        raise RuntimeError(f"{lost[0]} of {suite.name} came out of its last phase without a result")
    return {item: results[item] for item in items}


def tally(results: dict[str, Result], size: int, seed: int | None) -> Tally:
    """Count ``results``; every item that did not pass is named."""
    named: dict[str, dict[str, str]] = {}
    for item, result in results.items():
        if result.kind != "passed":
            named.setdefault(result.kind, {})[item] = shorten(f"{result.stage}: {result.reason}", 120)
    stages = Counter(result.stage for result in results.values() if result.kind == "refused")
    return Tally(size, seed, **count(results), stages=dict(stages), named=named)


def main(words: Sequence[str]) -> int:
    """Run what was asked for."""
    options = _parse(words)
    for suite in (SUITES[name] for name in options.suite.split(",")):
        with TemporaryDirectory() as folder:
            items = items_of(suite, Path(folder))
        for target in suite.routes:
            if options.target in (None, target):
                _run_one(suite, target, items, options)
    return 0


def _run_one(suite: Suite, target: str, items: Sequence[str], options: argparse.Namespace) -> None:
    asked = suite.samples[target] if options.sample is None else options.sample
    sample = draw(items, None if asked == "all" else asked, options.seed)
    results = run_suite(suite, target, sample, options.seconds)
    print(f"{suite.name} {target}: {count(results)} of {len(sample)} items of {len(items)}", flush=True)
    if options.print:
        for item, result in results.items():
            print(f"  {result.kind:8} {result.stage:8} {item} {result.reason}")
        return
    seed = options.seed if len(sample) < len(items) else None
    before = coverage_file.load()
    versions = {step: dict(env.versions) for step in _toolchains(suite, target) if (env := find(step)) is not None}
    known = before.suites.get(suite.name)
    made = coverage_file.made_now(versions | (known.made.toolchains if known else {}))
    targets = (known.targets if known else {}) | {target: tally(results, len(items), seed)}
    ordered = {name: targets[name] for name in suite.routes if name in targets}
    suites = before.suites | {suite.name: SuiteTally(made, ordered)}
    coverage_file.save(replace(before, suites={name: suites[name] for name in SUITES if name in suites}))


def _toolchains(suite: Suite, target: str) -> list[str]:
    return list(dict.fromkeys(phase.toolchain for phase in suite.phases(target)))


def _sample(text: str) -> int | str:
    return text if text == "all" else int(text)


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default=",".join(SUITES), help="names with commas between them")
    parser.add_argument("--target", help="one target only")
    parser.add_argument("--sample", type=_sample, help="how many items, or the word all")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="limit for one item in one phase")
    parser.add_argument("--print", action="store_true", help="show every item and write nothing")
    options = parser.parse_args(words)
    for name in options.suite.split(","):
        if name not in SUITES:
            parser.error(f"there is no suite {name!r}; choose from {', '.join(SUITES)}")
    known = {target for suite in SUITES.values() for target in suite.routes}
    if options.target is not None and options.target not in known:
        parser.error(f"there is no target {options.target!r}; choose from {', '.join(sorted(known))}")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

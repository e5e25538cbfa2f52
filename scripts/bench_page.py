"""Tables of `make bench` in docs/performance.md; each stands between marks of its own and is replaced alone."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench_make import Made
from bench_rounds import Contender, against, agree, middle_ms

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
#: What of ours is held against what of theirs.
PAIRS = (
    ("onnx", "torch.onnx.export's own"),
    ("tflite", "litert-torch's own"),
    ("tflite", "onnx2tf's own"),
    ("tvm rules", "tvm's own"),
)
Runs = Mapping[int, Mapping[str, Contender]]


def put(mark: str, text: str) -> None:
    """Replace what stands between the marks named ``mark``, or append it to the page."""
    begin, end = f"<!-- bench {mark}: begin -->", f"<!-- bench {mark}: end -->"
    page = PAGE.read_text(encoding="utf-8")
    block = f"{begin}\n{text}\n{end}"
    found = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    page = found.sub(lambda _: block, page) if found.search(page) else f"{page.rstrip()}\n\n{block}\n"
    PAGE.write_text(page, encoding="utf-8")


def machine() -> str:
    """The processor, as far as it says what it is."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} cores of {names[0]}" if names else platform.processor()


def write_net(net: str, made: Sequence[Made], runs: Runs) -> None:
    """The table of one network."""
    threads = list(runs)
    head = [
        "",
        "size",
        "build",
        "of limit",
        *(f"× ort, {n} thread{'s' * (n > 1)}" for n in threads),
        "ms",
        "peak memory",
    ]
    rows = [_row(one, runs) for one in made]
    lines = [f"### {net}", "", _line(head), _line(["---"] * len(head)), *map(_line, rows), ""]
    lines += [_pair(ours, theirs, runs) for ours, theirs in PAIRS if _both(ours, theirs, runs)]
    put(net, "\n".join(lines))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _row(one: Made, runs: Runs) -> list[str]:
    if one.file is None:
        return [one.name, f"none: {one.problem.replace('|', '/')}", *[""] * (4 + len(runs))]
    size = f"{one.size / 2**20:.1f} MiB" if one.size else ""
    cells = [
        one.name,
        size,
        f"{one.seconds:.0f} s" if one.seconds else "",
        "" if one.error is None else f"{one.error:.0%}",
    ]
    last = ["", ""]
    for contenders in runs.values():
        reference = next(iter(contenders.values()))
        found = contenders.get(one.name)
        if found is None:
            cells.append("does not run")
            continue
        shown = against(found, reference)
        wrong = "" if agree(found, reference) else ", **other numbers**"
        cells.append(f"{shown.median:.2f} ({shown.low:.2f}–{shown.high:.2f}){wrong}")
        last = last if last[0] else [f"{middle_ms(found):.2f}", f"{found.peak_memory_mib:.0f} MiB"]
    return cells + last


def _both(ours: str, theirs: str, runs: Runs) -> bool:
    return all(name in contenders for name in (ours, theirs) for contenders in runs.values())


def _pair(ours: str, theirs: str, runs: Runs) -> str:
    parts = []
    for threads, contenders in runs.items():
        shown = against(contenders[ours], contenders[theirs])
        parts.append(f"{shown.median:.2f} ({shown.low:.2f}–{shown.high:.2f}) with {threads}")
    return f"- {ours} against {theirs}: {', '.join(parts)}"

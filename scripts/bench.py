"""Latency of every artifact of well-known networks, and what the pipeline costs, into docs/performance.md.

    python scripts/bench.py                       # all: some hours with tuning on two cores
    python scripts/bench.py --net LSTM --tune 0   # one network, nothing tuned
    python scripts/bench.py --pipeline            # the pipeline alone

Everything of a table is timed in turns in one run, each contender in a process of its own; a ratio is taken within each
round. The machine has to be quiet. The running interpreter must have the core toolchain.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import bench_make
import bench_nets
import bench_page
import bench_pipeline
import bench_rounds
import numpy as np
from bench_make import Made
from bench_rounds import Contender

THREADS = (1, 2)


def files_of(net: str, tune: str, folder: Path) -> list[Made]:
    """Everything that is compared for one network, the reference first."""
    made = bench_make.by_convert(net, "", "onnx,tflite", folder / "out")
    made += bench_make.by_convert(net, "rules", "tvm", folder / "rules", "--tuning-db", "none")
    if tune != "0":
        made += bench_make.by_convert(net, f"tuned ({tune})", "tvm", folder / "tuned", "--tune", tune)
    own = folder / "own"
    own.mkdir()
    return made + bench_make.by_toolkit(net, own)


def bench(net: str, tune: str) -> None:
    """Measure one network and write its table."""
    factory, spec = bench_nets.NETS[net]
    with tempfile.TemporaryDirectory(prefix="convert-bench-") as place:
        folder = Path(place)
        made = files_of(net, tune, folder)
        shape = [int(size) for size in spec.partition("[")[2].rstrip("]").split(",")]
        feeds = folder / "feeds.npz"
        np.savez(feeds, x=np.random.default_rng(0).normal(size=shape).astype(np.float32))
        made += [Made("torch eager", "eager", Path(factory)), Made("torch.compile", "compile", Path(factory))]
        runs = {threads: _measure(made, feeds, threads) for threads in THREADS}
    bench_page.write_net(net, made, runs)


def _measure(made: list[Made], feeds: Path, threads: int) -> dict[str, Contender]:
    contenders = [Contender(one.name, one.what, str(one.file)) for one in made if one.file is not None]
    alive = bench_rounds.timed(contenders, feeds, threads)
    for one in alive:
        shown = bench_rounds.against(one, alive[0])
        print(f"{threads} threads {one.name}: {shown.median:.2f} ({shown.low:.2f}-{shown.high:.2f})", flush=True)
    return {one.name: one for one in alive}


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--net", choices=list(bench_nets.NETS), action="append")
    parser.add_argument("--tune", default="10m", help="as for convert; 0 for no tuning")
    parser.add_argument("--pipeline", action="store_true", help="the pipeline alone")
    asked = parser.parse_args()
    bench_page.put("machine", f"Made on {bench_page.machine()}.")
    if not asked.pipeline:
        for net in asked.net or bench_nets.NETS:
            print(net, flush=True)
            bench(net, asked.tune)
    if asked.pipeline or not asked.net:
        bench_pipeline.main()


if __name__ == "__main__":
    main()

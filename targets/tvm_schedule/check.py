"""A whole scheduled module against the source: relayout and packing are in no comparison of single kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from convert.golden_io import load_case
from convert.records import Golden
from convert.targets.tvm_bucket_engine import Engine

Limits = Mapping[str, Mapping[str, Mapping[str, float]]]


def unlike(engine: Engine, sizes: Sequence[Sequence[Any]], golden: Golden, folder: Path, limits: Limits) -> str:
    """How the module differs from the source in the cases that it takes; empty where it does not.

    Args:
        engine: runs the module.
        sizes: of each input, fixed ones as numbers; cases of other sizes are for other modules.
        golden: the source's interface and cases.
        folder: the cases lie here.
        limits: case, output, ``max_error``; cases that stand here only are looked at.
    """
    for case in (case for case in golden.cases if case.name in limits):
        data = load_case(folder, case)
        feeds = [data.feeds[spec.name] for spec in golden.inputs]
        if not all(_takes(size, feed.shape) for size, feed in zip(sizes, feeds, strict=True)):
            continue
        for spec, value in zip(golden.outputs, engine(feeds), strict=True):
            wanted, limit = data.outputs[spec.name], limits[case.name][spec.name]["max_error"]
            if value.shape != wanted.shape or not np.allclose(value, wanted, rtol=0.0, atol=limit, equal_nan=True):
                return f"output {spec.name} is not the source's in case {case.name}"
    return ""


def _takes(sizes: Sequence[Any], shape: Sequence[int]) -> bool:
    known = [size if isinstance(size, int) else getattr(size, "value", None) for size in sizes]
    return len(known) == len(shape) and all(size in (None, have) for size, have in zip(known, shape, strict=True))

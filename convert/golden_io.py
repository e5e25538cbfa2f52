"""Read and write the cases of a golden folder: one ``.npz`` each, with ``in:``, ``out:`` and ``truth:`` arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convert.records import Case

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CaseData:
    """The arrays of one case: feeds, the source's outputs, and the float64 truth where there is one."""

    feeds: dict[str, Array]
    outputs: dict[str, Array]
    truths: dict[str, Array]


def save_case(path: Path, data: CaseData) -> None:
    """Write ``data`` to ``path``."""
    arrays: dict[str, Array] = {}
    for prefix, group in (("in", data.feeds), ("out", data.outputs), ("truth", data.truths)):
        arrays |= {f"{prefix}:{name}": value for name, value in group.items()}
    _savez(path, arrays)


def _savez(path: Path, arrays: Mapping[str, Any]) -> None:
    np.savez_compressed(path, **arrays)


def load_case(folder: Path, case: Case) -> CaseData:
    """Read ``case`` from ``folder``."""
    groups: dict[str, dict[str, Array]] = {"in": {}, "out": {}, "truth": {}}
    with np.load(folder / case.file, allow_pickle=False) as stored:
        for key in stored.files:
            prefix, _, name = key.partition(":")
            groups[prefix][name] = stored[key]
    return CaseData(groups["in"], groups["out"], groups["truth"])

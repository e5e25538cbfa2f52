"""Read and write the cases of a golden folder: one ``.npz`` each, with ``in:``, ``out:`` and ``truth:`` arrays."""

from __future__ import annotations

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
    """Write ``data`` to ``path``, compressed: cases are kept."""
    np.savez_compressed(path, **_named(data))


def save_arrays(path: Path, data: CaseData) -> None:
    """Write ``data`` to ``path`` as it is: for what is thrown away soon."""
    np.savez(path, **_named(data))


def _named(data: CaseData) -> dict[str, Any]:
    groups = (("in", data.feeds), ("out", data.outputs), ("truth", data.truths))
    return {f"{prefix}:{name}": value for prefix, group in groups for name, value in group.items()}


def load_case(folder: Path, case: Case) -> CaseData:
    """Read ``case`` from ``folder``."""
    return load_arrays(folder / case.file)


def load_arrays(path: Path) -> CaseData:
    """Read what :func:`save_case` or :func:`save_arrays` wrote."""
    groups: dict[str, dict[str, Array]] = {"in": {}, "out": {}, "truth": {}}
    with np.load(path, allow_pickle=False) as stored:
        for key in stored.files:
            prefix, _, name = key.partition(":")
            groups[prefix][name] = stored[key]
    return CaseData(groups["in"], groups["out"], groups["truth"])

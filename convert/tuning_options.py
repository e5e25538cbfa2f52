"""The options about tuning: how long, and with which schedules of others."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from convert.errors import InputError
from convert.paths import is_file
from convert.records_tuning import Tuning
from convert.targets.tvm_tuning.database import read
from convert.targets.tvm_tuning.records import Records, Unreadable
from convert.texts import shown
from convert.toolchains import find

TARGET = "tvm"
NONE = "none"
_MOST_TRIALS = 1_000_000
_MOST_MINUTES = 7 * 24 * 60
_ALLOWED = f"write a number of trials from 1 to {_MOST_TRIALS}, as 500, or minutes up to {_MOST_MINUTES}, as 10m"


def settle_tuning(given: Mapping[str, Any], targets: Sequence[str]) -> Tuning:
    """Read ``--tune`` and ``--tuning-db``.

    Raises:
        InputError: a value cannot be used, or tvm is not asked for.
    """
    budget, text = given.get("tune"), given.get("tuning_db")
    for option, value in (("--tune", budget), ("--tuning-db", text)):
        if value is not None and TARGET not in targets:
            raise InputError(
                f"{option} {shown(value)} is about kernels of {TARGET}, and --target is {', '.join(targets)}; add "
                f"{TARGET}, or leave {option} out"
            )
    trials, seconds = (None, None) if budget is None else parse_budget(budget)
    if text == NONE:
        if budget is not None:
            raise InputError("--tuning-db none uses no tuned kernels, and --tune looks for some; leave one out")
        return Tuning(use=False)
    if text is not None:
        usable_database(text)
    return Tuning(trials, seconds, None if text is None else str(Path(text).absolute()))


def parse_budget(text: str) -> tuple[int | None, float | None]:
    """Read ``500`` or ``10m`` into trials or seconds, and None for the other.

    Raises:
        InputError: it is neither, or out of range.
    """
    match = re.fullmatch(r"(\d{1,9})|(\d{1,9}(?:\.\d{1,6})?)m", text.strip(), re.ASCII)
    if match is not None and match[1] is not None and 1 <= int(match[1]) <= _MOST_TRIALS:
        return int(match[1]), None
    if match is not None and match[2] is not None and 0 < float(match[2]) <= _MOST_MINUTES:
        return None, math.ceil(float(match[2]) * 60e3) / 1e3
    raise InputError(f"--tune {shown(text)} cannot be used; {_ALLOWED}")


def usable_database(text: str, option: str = "--tuning-db") -> Records:
    """The database in the file ``text``.

    Raises:
        InputError: there is none, or it is for another TVM than the one here.
    """
    if not text or not is_file(text):
        raise InputError(f"{option} {text or repr(text)} is no file; give one from `convert tuning export`")
    try:
        found = read(Path(text))
    except Unreadable as error:
        raise InputError(f"{option} {text} cannot be used: {error}; give one from `convert tuning export`") from error
    here = tvm_version()
    if here and found.identity.tvm != here:
        raise InputError(
            f"{option} {text} is for TVM {found.identity.tvm}, and the toolchain {TARGET} has {here}; tune again with "
            f"this version, or leave {option} out"
        )
    return found


def tvm_version() -> str:
    """The version of TVM in its toolchain; empty where that is not installed."""
    toolchain = find(TARGET)
    return "" if toolchain is None else toolchain.versions.get("apache-tvm", "")

"""What a tuning database holds. Reading one from JSON never runs anything: whatever is not known is refused."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

from convert.targets.tvm_tuning.trace import problem_of_trace

SCHEMA = "convert-tvm-tuning"
VERSION = 1
#: Best schedules that are kept of one workload; the search starts from them again.
MOST_RECORDS = 6
_MOST_WORKLOADS = 50_000
_MOST_LEDGER = 50_000
_KEY = re.compile(r"[0-9a-f]{16}")
_SET = re.compile(r"[0-9a-f]{32}")


class Unreadable(ValueError):
    """The text is no tuning database; the message says what is wrong with it."""


@dataclass(frozen=True)
class Identity:
    """What records are valid for: they serve no other version of TVM and no other CPU.

    Attributes:
        tvm: version of TVM.
        arch: the first part of the target triple, such as ``x86_64``.
        mcpu, mattr: LLVM's name of the CPU, and the features added to it.
        kind: TVM's name of the code generator.
    """

    tvm: str
    arch: str
    mcpu: str
    mattr: tuple[str, ...] = ()
    kind: str = "llvm"

    @property
    def cpu(self) -> str:
        """The CPU in words: ``x86_64 znver4``, with what was added to it."""
        return " ".join((self.arch, self.mcpu, *self.mattr))


@dataclass(frozen=True)
class Record:
    """One schedule: the trace that makes it, as TVM writes it to JSON, and the seconds of its runs."""

    trace: Any
    seconds: tuple[float, ...]

    @property
    def cost(self) -> float:
        """Seconds of a run, by the fastest of them: whatever else runs only adds to it."""
        return min(self.seconds)


@dataclass
class Workload:
    """All that is known of one kernel.

    Attributes:
        name: what TVM called it, for people.
        shapes: of its arguments, for people.
        untuned: seconds as a build without tuning makes it; None where that was not measured.
        trials: schedules measured so far.
        records: the best of them, best first.
    """

    name: str = ""
    shapes: str = ""
    untuned: float | None = None
    trials: int = 0
    records: list[Record] = field(default_factory=list)

    def add(self, more: Workload) -> None:
        """Take over what ``more`` knows of the same kernel."""
        known = {repr(record.trace) for record in self.records}
        fresh = [record for record in more.records if repr(record.trace) not in known]
        self.records = sorted((*self.records, *fresh), key=lambda record: record.cost)[:MOST_RECORDS]
        self.untuned = self.untuned if more.untuned is None else min(self.untuned or math.inf, more.untuned)
        self.name, self.shapes = self.name or more.name, self.shapes or more.shapes


@dataclass
class Spent:
    """What tuning one set of kernels has taken so far."""

    trials: int = 0
    seconds: float = 0.0


@dataclass
class Records:
    """A database.

    Attributes:
        identity: what all of it is valid for.
        workloads: by the structural hash of the kernel, sixteen hex digits.
        spent: by the hash of a set of kernels.
        skipped: entries of the text that were left out since something is wrong with them.
    """

    identity: Identity
    workloads: dict[str, Workload] = field(default_factory=dict)
    spent: dict[str, Spent] = field(default_factory=dict)
    skipped: int = 0

    @property
    def count(self) -> int:
        """Workloads with a schedule."""
        return sum(bool(workload.records) for workload in self.workloads.values())

    def add(self, more: Records) -> None:
        """Take over what ``more``, of the same identity, knows of whatever kernels."""
        for key, workload in more.workloads.items():
            known = self.workloads.setdefault(key, Workload())
            known.trials = max(known.trials, workload.trials)
            known.add(workload)
        for key, spent in more.spent.items():
            mine = self.spent.setdefault(key, Spent())
            mine.trials, mine.seconds = max(mine.trials, spent.trials), max(mine.seconds, spent.seconds)


def to_json(records: Records) -> dict[str, Any]:
    """``records`` as values that JSON can hold."""
    identity = records.identity
    target = {"kind": identity.kind, "arch": identity.arch, "mcpu": identity.mcpu, "mattr": list(identity.mattr)}
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "tvm": identity.tvm,
        "target": target,
        "workloads": {key: _workload_to_json(one) for key, one in sorted(records.workloads.items())},
        "spent": {
            key: {"trials": one.trials, "seconds": round(one.seconds, 3)} for key, one in sorted(records.spent.items())
        },
    }


def _workload_to_json(workload: Workload) -> dict[str, Any]:
    records = [{"seconds": list(record.seconds), "trace": record.trace} for record in workload.records]
    untuned = {} if workload.untuned is None else {"untuned": workload.untuned}
    return {
        "name": workload.name,
        "shapes": workload.shapes,
        "trials": workload.trials,
        **untuned,
        "records": records,
    }


def from_json(data: Any) -> Records:
    """Read what :func:`to_json` gave; single entries that are wrong are skipped and counted.

    Raises:
        Unreadable: it is no such database.
    """
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise Unreadable("it is no tuning database of this program")
    if data.get("version") != VERSION:
        raise Unreadable(f"it has format {data.get('version')!r}, and this program reads format {VERSION}")
    found = Records(_identity(data))
    workloads, spent = _table(data, "workloads", _MOST_WORKLOADS), _table(data, "spent", _MOST_LEDGER)
    for key, value in workloads.items():
        workload, wrong = _workload(value) if _KEY.fullmatch(key) else (None, 1)
        found.skipped += wrong
        if workload is not None:
            found.workloads[key] = workload
    for key, value in spent.items():
        if _SET.fullmatch(key) and isinstance(value, dict):
            found.spent[key] = Spent(_count(value.get("trials")), _positive(value.get("seconds")) or 0.0)
    return found


def _table(data: dict[str, Any], name: str, most: int) -> dict[str, Any]:
    table = data.get(name, {})
    if not isinstance(table, dict) or len(table) > most:
        raise Unreadable(f"its part {name!r} is not a table of at most {most} entries")
    return table


def _identity(data: dict[str, Any]) -> Identity:
    target = data.get("target")
    if not isinstance(target, dict):
        raise Unreadable("it does not say which CPU it is for")
    mattr = target.get("mattr", [])
    texts = [data.get("tvm"), target.get("arch"), target.get("mcpu"), target.get("kind")]
    if not isinstance(mattr, list) or not all(_is_name(text) for text in (*texts, *mattr)):
        raise Unreadable("it does not say which CPU and which version of TVM it is for")
    tvm, arch, mcpu, kind = (str(text) for text in texts)
    return Identity(tvm, arch, mcpu, tuple(mattr), kind)


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and re.fullmatch(r"[A-Za-z0-9_.+-]{1,100}", text) is not None


def _workload(value: Any) -> tuple[Workload | None, int]:
    """A workload without what is wrong in it, and how many parts of it were."""
    if not isinstance(value, dict) or not isinstance(value.get("records"), list):
        return None, 1
    records = [record for record in map(_record, value["records"]) if record is not None]
    workload = Workload(
        _text(value.get("name")),
        _text(value.get("shapes")),
        _positive(value.get("untuned")),
        _count(value.get("trials")),
        sorted(records, key=lambda record: record.cost)[:MOST_RECORDS],
    )
    return workload, len(value["records"]) - len(records)


def _record(value: Any) -> Record | None:
    if not isinstance(value, dict) or not isinstance(value.get("seconds"), list):
        return None
    seconds = [_positive(one) for one in value["seconds"][:16]]
    if not seconds or None in seconds or problem_of_trace(value.get("trace")):
        return None
    return Record(value["trace"], tuple(one for one in seconds if one is not None))


def _text(value: Any) -> str:
    return "".join(letter for letter in value[:200] if letter.isprintable()) if isinstance(value, str) else ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9 else 0


def _positive(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 < value < 10**6 else None

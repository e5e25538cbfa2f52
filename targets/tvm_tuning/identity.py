"""What a target of TVM is to a tuning database."""

from __future__ import annotations

import platform
from typing import Any

from convert.targets.tvm_tuning.records import Identity
from convert.targets.versions import installed


def settings_of(target: Any) -> dict[str, Any]:
    """What makes ``target`` anew, as JSON can hold it: without what TVM derives itself."""
    said = dict(target.export()).items()
    return {str(key): _plain(value) for key, value in said if not str(key).startswith("feature.")}


def for_search(target: Any) -> Any:
    """``target`` as the search wants it: it must know a number of cores, and candidates are timed with one thread."""
    import tvm

    return tvm.target.Target(settings_of(target) | {"num-cores": 1})


def _plain(value: Any) -> Any:
    if isinstance(value, str | int | float) or value is None:
        return value
    return [_plain(item) for item in value]


def identity_of(target: Any) -> Identity:
    """The identity of ``target`` with the TVM that is installed here."""
    said = dict(target.export())
    arch = str(said.get("mtriple", "")).partition("-")[0] or platform.machine()
    mattr = tuple(sorted(str(one) for one in said.get("mattr", ())))
    version = installed("apache-tvm").get("apache-tvm", "unknown")
    return Identity(version, arch, str(said.get("mcpu") or "generic"), mattr, str(said["kind"]))

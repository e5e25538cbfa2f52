"""What a target of TVM is to a tuning database."""

from __future__ import annotations

import platform
from typing import Any

from convert.targets.tvm_tuning.records import Identity
from convert.targets.versions import installed


def identity_of(target: Any) -> Identity:
    """The identity of ``target`` with the TVM that is installed here."""
    said = dict(target.export())
    arch = str(said.get("mtriple", "")).partition("-")[0] or platform.machine()
    mattr = tuple(sorted(str(one) for one in said.get("mattr", ())))
    version = installed("apache-tvm").get("apache-tvm", "unknown")
    return Identity(version, arch, str(said.get("mcpu") or "generic"), mattr, str(said["kind"]))

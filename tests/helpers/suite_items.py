"""Items for the runner of suites that do what converters do: refuse, exit, crash, hang, print."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from convert.errors import StageError


def judge(item: str) -> dict[str, Any] | None:
    """End the way that ``item`` says."""
    if item == "refuse":
        raise StageError("there is no such operator")
    if item == "raise":
        raise ValueError("first line\nsecond line")
    if item == "exit":
        sys.exit(3)
    if item == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if item == "leave":
        os._exit(7)
    if item == "hang":
        time.sleep(600)
    if item == "go on":
        return None
    print("noise " * 20_000)
    return {"kind": "wrong", "reason": "off by 1"} if item == "be wrong" else {"kind": "passed", "reason": ""}


def finish(item: str) -> dict[str, Any]:
    """A last phase, which says whether the process is the first phase's."""
    return {"kind": "passed", "reason": item}

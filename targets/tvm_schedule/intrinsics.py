"""Keep TVM from parsing the intrinsics of GPUs and DSPs, which takes half a minute in every process of a search.

This file stands alone: its function is sent to processes that know nothing of this project.
"""

from __future__ import annotations

import sys
import types

_FOREIGN = ("cuda", "rocm", "metal", "hexagon", "riscv_cpu")


def leave_out_foreign() -> None:
    """Put an empty module in the place of each; must come before TVM looks for them."""
    for name in _FOREIGN:
        full = f"tvm.s_tir.tensor_intrin.{name}"
        sys.modules.setdefault(full, types.ModuleType(full))

"""How wide the vectors of a CPU are, and how many registers hold them: all that the rules ask of a target."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Registers:
    """The vector unit of a CPU.

    Attributes:
        lanes: float32 values in one vector.
        count: architectural vector registers.
    """

    lanes: int
    count: int


#: Sources: Intel SDM vol. 1 (chapters 10, 14, 15), Arm ARM (A1.4, B1.2.1).
SSE, AVX2, AVX512 = Registers(4, 16), Registers(8, 16), Registers(16, 32)
NEON64, NEON32 = Registers(4, 32), Registers(4, 16)
#: Without a vector unit LLVM takes vectors apart; small ones stay in the scalar registers.
SCALAR = Registers(4, 8)


def registers_of(target: Any) -> Registers:
    """The registers of ``tvm.target.Target`` of kind llvm; without a triple, this host's architecture counts."""
    described = dict(target.export())
    triple = str(described.get("mtriple") or platform.machine())
    if triple.startswith(("x86_64", "amd64", "AMD64", "i686")):
        return _x86(target)
    if triple.startswith(("aarch64", "arm64")):
        return NEON64
    if triple.startswith("arm"):
        return NEON32 if "+neon" in [str(one) for one in described.get("mattr") or ()] else SCALAR
    return SCALAR


def _x86(target: Any) -> Registers:
    from tvm.target.codegen import target_has_features

    if target_has_features("avx512f", target):
        return AVX512
    return AVX2 if target_has_features("avx2", target) else SSE

"""Kernels that a comparison must tell from right ones. Imported by the Python of TVM's toolchain."""

# mypy: disable-error-code="untyped-decorator, valid-type"

from __future__ import annotations

from tvm.script import tirx as T

from convert.targets.tvm_schedule.proof import Pair


def kernels() -> dict[str, Pair]:
    """Pairs that must be told from right ones: a race, a wrong index, a write beside the result, and two right ones."""

    @T.prim_func(s_tir=True)
    def total(x: T.Buffer((64, 65536), "float32"), y: T.Buffer((64,), "float32")) -> None:
        for i, k in T.grid(64, 65536):
            with T.sblock("total"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    y[vi] = T.float32(0)
                y[vi] = y[vi] + x[vi, vk]

    @T.prim_func(s_tir=True)
    def racing(x: T.Buffer((64, 65536), "float32"), y: T.Buffer((64,), "float32")) -> None:
        for i in range(64):
            y[i] = T.float32(0)
        for k in T.parallel(65536):
            for i in range(64):
                y[i] = y[i] + x[i, k]

    @T.prim_func(s_tir=True)
    def shifted(x: T.Buffer((64, 65536), "float32"), y: T.Buffer((64,), "float32")) -> None:
        for i, k in T.grid(64, 65536):
            with T.sblock("total"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    y[vi] = T.float32(0)
                y[vi] = y[vi] + x[vi, T.min(vk + 1, 65535)]

    @T.prim_func(s_tir=True)
    def beside(x: T.Buffer((64, 65536), "float32"), y: T.Buffer((64,), "float32")) -> None:
        for i, k in T.grid(64, 65536):
            with T.sblock("total"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    y[vi] = T.float32(0)
                y[vi] = y[vi] + x[vi, vk]
        for i in range(8):
            y[64 + i] = T.float32(1)

    @T.prim_func(s_tir=True)
    def constant(x: T.Buffer((64, 65536), "float32"), y: T.Buffer((64,), "float32")) -> None:
        for i in range(64):
            with T.sblock("constant"):
                vi = T.axis.spatial(64, i)
                y[vi] = T.min(x[vi, 0], T.float32(-1e9))

    wrong = {"race": racing, "index": shifted, "beside": beside, "right": total}
    return {name: Pair(total, after) for name, after in wrong.items()} | {"constant": Pair(constant, constant)}

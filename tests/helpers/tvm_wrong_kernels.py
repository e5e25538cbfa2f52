"""Kernels that a comparison must tell from right ones. Imported by the Python of TVM's toolchain."""

# mypy: disable-error-code="untyped-decorator, valid-type"

from __future__ import annotations

from tvm import s_tir
from tvm.script import tirx as T

from convert.targets.tvm_schedule.proof import Trial


def kernels() -> dict[str, Trial]:
    """A race, wrong indices, writes beside the result, what crashes, what says nothing, and right ones between them."""

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
    def far(x: T.Buffer((64, 65536), "float32"), y: T.Buffer((64,), "float32")) -> None:
        for i in range(64):
            y[i + 4000000000000] = x[i, 0]

    @T.prim_func(s_tir=True)
    def large(x: T.Buffer((64, 65536), "float32"), y: T.Buffer((64,), "float32")) -> None:
        for i, j, k in T.grid(64, 65536, 65536):
            with T.sblock("large"):
                vi, vj, vk = T.axis.remap("SRR", [i, j, k])
                with T.init():
                    y[vi] = T.float32(0)
                y[vi] = y[vi] + x[vi, vk] * x[vi, vj]

    @T.prim_func(s_tir=True)
    def constant(x: T.Buffer((64, 65536), "float32"), y: T.Buffer((64,), "float32")) -> None:
        for i in range(64):
            with T.sblock("constant"):
                vi = T.axis.spatial(64, i)
                y[vi] = T.min(x[vi, 0], T.float32(-1e9))

    one_share = s_tir.Schedule(total)
    one_share.parallel(one_share.add_unit_loop(one_share.get_loops(one_share.get_sblock("total"))[0]))
    after = {
        "race": racing,
        "crash": far,
        "index": shifted,
        "beside": beside,
        "right": total,
        "alone": one_share.mod["main"],
    }
    others = {"constant": Trial(constant, constant), "large": Trial(large, large)}
    return {name: Trial(total, kernel) for name, kernel in after.items()} | others

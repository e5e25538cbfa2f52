"""The kernels of a module, each by a hash of its structure that is the same in every run and every model."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from convert.errors import StageError
from convert.targets.tvm_schedule.apply import TUNED, lowered_for, ruled

#: Attributes that are part of what a kernel computes; others say how it came about.
_ESSENTIAL = ("tirx.noalias", "s_tir")
_MAIN = "main"


@dataclass
class Kernel:
    """One kernel.

    Attributes:
        key: hash of its structure, sixteen hex digits.
        names: the functions of the module that are this kernel.
        module: it alone, called ``main``.
        calls: how often one run of the model calls it.
        shapes: types and sizes of its arguments, in words.
        results: how many of its last arguments are what it gives.
    """

    key: str
    names: list[str]
    module: Any
    calls: int
    shapes: str
    results: int = 1

    @property
    def function(self) -> Any:
        """It alone, as a ``PrimFunc``."""
        return self.module[_MAIN]


def lowered(module: Any, target: Any) -> Any:
    """``module`` with its operators fused into kernels, in the layout that builds give them.

    Raises:
        StageError: TVM cannot lower it.
    """
    made, problem = lowered_for(module, target)
    if made is None:
        raise StageError(f"nothing can be tuned: {problem}")
    return made


def by_rules(kernel: Kernel, target: Any) -> Any:
    """The kernel alone as a build without tuning makes it: what a schedule must be faster than."""
    return alone_of(ruled(kernel.function, target))


def kernels_of(module: Any) -> tuple[list[Kernel], int]:
    """The kernels of a lowered module, and how many more functions have sizes that are not fixed."""
    import tvm

    calls, inputs = _calls(module)
    found: dict[str, Kernel] = {}
    open_sizes = 0
    for name, function in module.functions_items():
        if not isinstance(function, tvm.tirx.PrimFunc) or _is_scheduled(function):
            continue
        shapes = _shapes(function)
        if shapes is None:
            open_sizes += 1
            continue
        alone = alone_of(function)
        key = key_of(alone)
        results = len(function.params) - inputs.get(name.name_hint, len(function.params) - 1)
        kernel = found.setdefault(key, Kernel(key, [], alone, 0, shapes, results))
        kernel.names.append(name.name_hint)
        kernel.calls += calls[name.name_hint]
    return list(found.values()), open_sizes


def key_of(alone: Any) -> str:
    """The hash of a kernel alone, as :func:`alone_of` gives it."""
    from tvm_ffi import structural_hash

    return f"{structural_hash(alone) & (2**64 - 1):016x}"


def alone_of(function: Any) -> Any:
    """A module with nothing but ``function``, without what does not change its result."""
    import tvm

    for name in list(function.attrs.keys()) if function.attrs else []:
        if name not in _ESSENTIAL:
            function = function.without_attr(name)
    return tvm.IRModule({_MAIN: function.with_attr("global_symbol", _MAIN).with_attr("tirx.noalias", True)})


def in_place_of(function: Any, scheduled: Any) -> Any:
    """``scheduled``, made from ``function`` alone, with the attributes that the module around it asks for."""
    made = scheduled.without_attr("global_symbol")
    for name, value in (function.attrs or {}).items():
        if name not in _ESSENTIAL:
            made = made.with_attr(name, value)
    return made.with_attr(TUNED, True)


def set_of(kernels: Iterable[Kernel]) -> str:
    """A name for these kernels together."""
    return hashlib.sha256(" ".join(sorted(kernel.key for kernel in kernels)).encode()).hexdigest()[:32]


def _is_scheduled(function: Any) -> bool:
    return bool(function.attrs and function.attrs.get(TUNED, False))


def _shapes(function: Any) -> str | None:
    """``float32[1, 8] float32[8, 4]``; None where a size is not fixed, or an argument is no array."""
    import tvm

    words = []
    for parameter in function.params:
        if not isinstance(parameter.ty, tvm.tirx.buffer.BufferType):
            return None
        if not all(isinstance(size, tvm.tirx.IntImm) for size in parameter.shape):
            return None
        words.append(f"{parameter.dtype}[{', '.join(str(int(size)) for size in parameter.shape)}]")
    return " ".join(words)


def _calls(module: Any) -> tuple[Counter[str], dict[str, int]]:
    """How often each function is called, by name, where loops count once; and how many inputs a call gives it."""
    from tvm import relax

    counted: Counter[str] = Counter()
    inputs: dict[str, int] = {}

    def look(node: Any) -> None:
        if isinstance(node, relax.Call):
            for value, after in zip(node.args, [*node.args[1:], None], strict=True):
                if type(value).__name__ == "GlobalVar":
                    counted[value.name_hint] += 1
                    if isinstance(after, relax.Tuple):
                        inputs[value.name_hint] = len(after.fields)

    for _, function in module.functions_items():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, look)
    return counted, inputs

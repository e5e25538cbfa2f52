"""Which values of its inputs a module reads into Python, where a trace or an export may freeze what is done with them.

Operators are watched while the module runs; everything that was computed from an input is followed by its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Operators that turn the content of a tensor into a number or a truth of Python.
_READS = frozenset({"aten._local_scalar_dense", "aten.item", "aten.is_nonzero", "aten.equal", "aten.allclose"})
#: Methods that hand the memory of a tensor out of torch.
_LEAVES = frozenset({"numpy", "__array__", "tolist", "data_ptr", "__dlpack__"})


@dataclass
class Reads:
    """What one run did.

    Attributes:
        values: operators and methods by which values that depend on an input were read into Python.
        shapes: operators whose result has a shape that depends on such values.
        path: every operator that was called, in order; two runs that differ in it took different branches.
    """

    values: set[str] = field(default_factory=set)
    shapes: set[str] = field(default_factory=set)
    path: list[str] = field(default_factory=list)

    @property
    def names(self) -> str:
        """The reads, for people."""
        return ", ".join(sorted(self.values))


def watch_reads(call: Callable[[Sequence[Any]], Any], tensors: Sequence[Any]) -> Reads:
    """Run ``call`` on ``tensors`` once and watch it.

    Raises:
        Exception: whatever ``call`` raises.
    """
    import torch

    reads = Reads()
    tainted = {_memory(tensor) for tensor in tensors}
    with torch.inference_mode(), _functions(reads, tainted), _operators(reads, tainted):
        call(tensors)
    return reads


def _operators(reads: Reads, tainted: set[int]) -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from convert.stages.randomness import operator_name

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = operator_name(func)
            reads.path.append(name)
            depends = any(_memory(item) in tainted for item in _tensors((args, kwargs or {})))
            result = func(*args, **(kwargs or {}))
            if depends and name in _READS:
                reads.values.add(name)
            if depends and torch.Tag.dynamic_output_shape in getattr(func, "tags", ()):
                reads.shapes.add(name)
            for item in _tensors(result):
                # Memory that was freed comes back for other tensors, so what does not depend has to be taken out.
                (tainted.add if depends else tainted.discard)(_memory(item))
            return result

    return Watch()


def _functions(reads: Reads, tainted: set[int]) -> Any:
    from torch.overrides import TorchFunctionMode

    class Leave(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(func, "__name__", "")
            if name in _LEAVES and any(_memory(item) in tainted for item in _tensors(args)):
                reads.values.add(f"Tensor.{name}")
            return func(*args, **(kwargs or {}))

    return Leave()


def _tensors(value: Any) -> Iterator[Any]:
    import torch

    for leaf in torch.utils._pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            yield leaf


def _memory(tensor: Any) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return 0  # a sparse tensor, say: all of these are taken for one, which depends as soon as one of them does

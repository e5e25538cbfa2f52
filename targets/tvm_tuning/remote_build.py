"""Make a candidate into a module that the runner of a device can hold: a model whose only layer is the kernel.

This file stands alone: its functions are sent to processes that know nothing of this project.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

#: Attribute of a kernel: how many of its last arguments are results.
RESULTS = "convert_results"


def build(module: Any, target: Any, parameters: Any) -> Any:
    """Compile a kernel with that attribute."""
    import tvm
    from tvm import relax

    del parameters
    kernel = module["main"]
    results = int(kernel.attrs[RESULTS])
    kernel = kernel.without_attr(RESULTS).without_attr("global_symbol")
    types = [relax.TensorType([int(size) for size in one.shape], str(one.dtype)) for one in kernel.params]
    inputs = [relax.Var(f"input{place}", one) for place, one in enumerate(types[:-results])]
    builder = relax.BlockBuilder()
    where = builder.add_func(kernel.with_attr("tirx.is_scheduled", True), "kernel")
    with builder.function("main", inputs):
        made = builder.emit(relax.call_tir(where, relax.Tuple(inputs), types[-results:]))
        builder.emit_func_output(made)
    return tvm.compile(builder.get(), target=target)


def export(library: Any) -> str:
    """Write the objects of what :func:`build` gave to a file."""
    from tvm.support.tar import tar

    path = os.path.join(tempfile.mkdtemp(), "kernel.tar")  # noqa: PTH118
    library.export_library(path, fcompile=tar)
    return path

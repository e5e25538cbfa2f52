"""Whether a module may be traced: a trace keeps the branch that the example took, and no draw may happen to tell."""

from __future__ import annotations

from typing import Any

from convert.errors import StageError
from convert.stages.reads import Reads, watch_reads
from convert.stages.source import LiveSource
from convert.stages.state import State

_ADVICE = "write it with torch.where or torch.cond, or give a scripted module"


def require_traceable(source: LiveSource, branching: str) -> None:
    """Refuse to trace a module that reads values of its inputs into Python.

    Args:
        source: the module and an example. TorchScript keeps its branches in a trace, so it is let through.
        branching: how torch.export said that control flow depends on data; empty where it did not.

    Raises:
        StageError: a trace would freeze what the example did.
    """
    import torch

    if isinstance(source.module, torch.jit.ScriptModule):
        return
    reads = _watch(source)
    found = ""
    if reads is None and branching:
        found = f"torch.export said so: {branching}"
    elif reads is not None and reads.values:
        found = f"it reads them with {reads.names}"
    elif reads is not None and reads.shapes and branching:
        found = f"by the shape of what {', '.join(sorted(reads.shapes))} gives"
    # Without any read, what torch.export found depends on weights and buffers, which do not change.
    if found:
        raise StageError(
            "the source's control flow depends on the values of its inputs, and tracing would freeze what the example "
            f"did ({found})"[:600],
            _ADVICE,
        )


def _watch(source: LiveSource) -> Reads | None:
    """What a run on the example reads; None where the module cannot be watched."""
    state = State(source.module)

    def call(tensors: Any) -> None:
        source.module(*tensors)

    try:
        return watch_reads(call, [tensor.clone() for tensor in source.example])
    except Exception as error:
        print(f"[convert] the source could not be watched: {type(error).__name__}: {error}")
        return None
    finally:
        state.restore()

"""Why a source gives other numbers the second time: which random operators it runs, which state it changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from convert.stages.running import Source

    Array = np.ndarray[Any, Any]
    Feeds = Mapping[str, Array]

#: How often a source that runs random operators is tried before it is taken for repeatable: noise may not reach an
#: output that is a class or an index in one run.
_REPEATS = 5
_RANDOM_ONNX = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)


def operator_name(target: Any) -> str:
    """How an operator of torch is called here, without its overload: ``aten.conv2d``, ``higher_order.cond``."""
    import torch

    if isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        packet = target.overloadpacket if isinstance(target, torch._ops.OpOverload) else target
        return str(packet)
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{target.__name__}"
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', target)}"


def is_random(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether this call draws random numbers; dropout that is switched off does not."""
    import torch

    if torch.Tag.nondeterministic_seeded not in getattr(target, "tags", ()):
        return False
    given = {item.name: item.default_value for item in target._schema.arguments}
    given |= dict(zip((item.name for item in target._schema.arguments), args, strict=False)) | dict(kwargs)
    if any(given.get(switch, True) is False for switch in ("train", "training")):
        return False
    # Only dropout takes a share of zero; of other operators `p` is something else.
    shares = [given[name] for name in ("dropout_p", "dropout") if name in given]
    shares += [given["p"]] if "dropout" in str(target) and "p" in given else []
    return not any(isinstance(share, int | float) and share == 0 for share in shares)


def watch_run(source: Source, feeds: Feeds) -> tuple[Counter[str], Counter[str]]:
    """Run ``source`` once and count the operators of torch that it calls.

    Returns:
        How often each operator was called, and how often each of those that draw random numbers.

    Raises:
        StageError: the source failed.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: Counter[str] = Counter()
    random: Counter[str] = Counter()

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            seen[operator_name(func)] += 1
            if is_random(func, args, kwargs):
                random[operator_name(func)] += 1
            return func(*args, **kwargs)

    with Watch():
        source.run(feeds)
    return seen, random


def random_in_graph(path: str) -> Counter[str]:
    """How often each operator that draws random numbers stands in an ONNX file, subgraphs and functions included."""
    from convert.targets.onnx_nodes import nodes_of_file

    return Counter(
        node.op_type
        for node in nodes_of_file(path)
        if node.op_type in _RANDOM_ONNX or (node.op_type == "Dropout" and len(node.input) > 2 and node.input[2])
    )


def random_operators(source: Source, feeds: Feeds) -> Counter[str]:
    """How often the source calls each operator that draws random numbers; empty where it cannot be watched."""
    from convert.records import Kind

    if source.loaded.kind is Kind.ONNX:
        return random_in_graph(source.path)
    try:
        return watch_run(source, feeds)[1]
    except Exception as error:  # a module that works may still not take to being watched
        print(f"[convert] the source could not be watched: {type(error).__name__}: {error}")
        return Counter()


def why_unrepeatable(source: Source, feeds: Feeds, first: Mapping[str, Array]) -> str:
    """Why no artifact can be proven against ``source``, in one sentence; empty where its outputs repeat.

    ``source.random`` has the names of the random operators afterwards, also where they do not move the outputs.

    Args:
        source: was run once, on ``feeds``.
        feeds: its inputs.
        first: the outputs of that run.
    """
    parameters = source.state.changed_parameters()
    if parameters:
        return (
            f"the source changes its own weights in forward ({_few(parameters)}), so each call is that of another "
            "model and no artifact can be proven; keep what changes in a buffer"
        )
    random = random_operators(source, feeds)
    source.random = tuple(sorted(random))
    for _ in range(_REPEATS if random else 1):
        moved = differing(first, source.run(feeds))
        if moved:
            return _random_reason(moved, source)
    if source.updated:
        source.run(feeds, keep_state=True)
        moved = differing(first, source.run(feeds))
        if moved:
            return (
                f"the source gives another {moved} when it is called again, since it depends on state that it updates "
                f"in forward ({_few(sorted(source.updated))}), and an artifact keeps no state between calls; make that "
                "state an input and an output"
            )
    return ""


def differing(first: Mapping[str, Array], second: Mapping[str, Array]) -> str:
    """Name of the first output in which two runs differ; empty when there is none."""
    for name, value in first.items():
        other = second.get(name)
        if other is None or not np.array_equal(value, other, equal_nan=value.dtype.kind in "fc"):
            return name
    return ""


def _random_reason(moved: str, source: Source) -> str:
    if source.random:
        why = f"it draws random numbers with {', '.join(source.random)}"
    else:
        why = "no random operator of torch was seen: Python's or numpy's random numbers, or state outside of buffers"
    also = f", and updates {_few(sorted(source.updated))}" if source.updated else ""
    return (
        f"the source gives another {moved} each time it runs on the same inputs ({why}{also}), so no artifact can be "
        "proven; make it deterministic"
    )


def _few(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more

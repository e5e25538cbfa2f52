"""Which traces of schedules are taken from a file: only steps of a known kind, with names and numbers in them.

A trace is data, but some steps of TVM could carry more: a pragma that links code into the kernel, an intrinsic by name,
or a whole serialised object. Those are not on the list.
"""

from __future__ import annotations

import re
from typing import Any

_LOOK = ("GetSBlock", "GetLoops", "GetChildBlocks", "GetProducers", "GetConsumers", "GetOutputBlocks")
_SAMPLE = ("SampleCategorical", "SamplePerfectTile", "SamplePartitionedTile", "SampleComputeLocation")
_LOOPS = ("Split", "Fuse", "Merge", "Reorder", "AddUnitLoop", "Parallel", "Vectorize", "Unroll")
_PLACE = ("ComputeAt", "ReverseComputeAt", "ComputeInline", "ReverseComputeInline")
_BLOCKS = ("CacheRead", "CacheWrite", "DecomposeReduction", "DecomposePadding", "RFactor", "StorageAlign")
KINDS = frozenset((*_LOOK, *_SAMPLE, *_LOOPS, *_PLACE, *_BLOCKS, "Annotate", "Unannotate", "EnterPostproc"))
#: What may be written on a loop or block; any other pragma could reach the code generator.
_ANNOTATION = re.compile(r"meta_schedule\.[a-z_]+|pragma_auto_unroll_max_step|pragma_unroll_explicit")
_WORD = re.compile(r'"?[A-Za-z0-9_.]{1,200}"?')
_MOST_STEPS = 2000
_MOST_ITEMS = 256
_PARTS = 4


def problem_of_trace(trace: Any) -> str:
    """What is wrong with ``trace``, as TVM writes one to JSON; empty for nothing."""
    if not isinstance(trace, list) or len(trace) != 2 or not all(isinstance(part, list) for part in trace):
        return "it is not a list of steps and a list of decisions"
    steps, decisions = trace
    if not 0 < len(steps) <= _MOST_STEPS or len(decisions) > len(steps):
        return f"it has {len(steps)} steps and {len(decisions)} decisions"
    for step in steps:
        problem = _problem_of_step(step)
        if problem:
            return problem
    if not all(_is_decision(decision, len(steps)) for decision in decisions):
        return "a decision is not a step with numbers"
    return ""


def _problem_of_step(step: Any) -> str:
    if not isinstance(step, list) or len(step) != _PARTS or not isinstance(step[0], str):
        return "a step is not a name with three lists"
    kind, inputs, attributes, outputs = step
    if kind not in KINDS:
        return f"the step {kind[:40]!r} is not allowed"
    if not all(isinstance(part, list) and len(part) <= _MOST_ITEMS for part in (inputs, attributes, outputs)):
        return f"a list of {kind} is too long, or none"
    if not all(_is_plain(item) for item in (*inputs, *attributes, *outputs)):
        return f"{kind} has something else than names and numbers"
    if kind in ("Annotate", "Unannotate") and not _known_annotation(attributes):
        return f"{kind} writes something else than what the search itself writes"
    return ""


def _known_annotation(attributes: list[Any]) -> bool:
    key = attributes[0] if attributes else None
    return isinstance(key, str) and _ANNOTATION.fullmatch(key) is not None


def _is_plain(item: Any) -> bool:
    """A name, a number or nothing, or a short list of such."""
    if isinstance(item, list):
        return len(item) <= _MOST_ITEMS and not any(isinstance(one, list) for one in item) and all(map(_is_plain, item))
    return _is_scalar(item)


def _is_scalar(item: Any) -> bool:
    if isinstance(item, str):
        return _WORD.fullmatch(item) is not None
    return item is None or isinstance(item, bool | float) or (isinstance(item, int) and abs(item) < 2**31)


def _is_decision(decision: Any, steps: int) -> bool:
    if not isinstance(decision, list) or len(decision) != 2:
        return False
    step, value = decision
    values = value if isinstance(value, list) else [value]
    return (
        isinstance(step, int)
        and 0 <= step < steps
        and len(values) <= _MOST_ITEMS
        and all(isinstance(one, int) and abs(one) < 2**31 for one in values)
    )

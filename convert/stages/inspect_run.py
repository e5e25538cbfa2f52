"""What only running the source tells: outputs, floating point operations, randomness and state."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from convert.cases import Plan, draw, plan_cases
from convert.errors import ConvertError, InputError
from convert.inspect_records import Flops, Randomness
from convert.models.factory import one_line
from convert.records import Case, Kind, OutputSpec
from convert.specs import format_input
from convert.stages.golden import output_specs
from convert.stages.randomness import operator_name, random_operators, why_unrepeatable
from convert.stages.running import Opened


@dataclass(frozen=True)
class Ran:
    """What running the source showed; ``missing`` has what could not be found out, and why."""

    outputs: tuple[OutputSpec, ...]
    flops: Flops | None
    randomness: Randomness
    state: tuple[str, ...]
    missing: tuple[str, ...]


def run_all(opened: Opened) -> Ran:
    """Run the source at its optimum, for randomness and state, and at its other sizes, for the outputs.

    Raises:
        InputError: it fails on its inputs.
    """
    source = opened.source
    plans = [plan for plan in plan_cases(opened.specs, opened.dims) if plan.origin == "draw"]
    feeds = draw(plans[0], opened.specs, {})
    try:
        first = source.run(feeds)
    except ConvertError as error:  # the user's own module, with inputs that the user described
        told = " ".join(f"--input '{format_input(spec)}'" for spec in opened.specs)
        raise InputError(f"{error}; check the inputs, now {told}, and --dim") from error
    reason = why_unrepeatable(source, feeds, first)
    # Counted after that: a source which changes its own weights is not run more often than it must.
    randomness = Randomness(dict(sorted(random_operators(source, feeds).items())), not reason, reason)
    missing: list[str] = []
    outputs = _outputs(opened, plans, first, missing)
    flops = _flops(opened, feeds, missing)
    return Ran(outputs, flops, randomness, tuple(sorted(source.updated)), tuple(missing))


def _outputs(
    opened: Opened, plans: Sequence[Plan], first: Mapping[str, Any], missing: list[str]
) -> tuple[OutputSpec, ...]:
    """Names, dtypes and sizes; sizes that follow a dynamic dimension are found by running at several."""
    found = [(plans[0], first)]
    for plan in plans[1:] if opened.dims else ():
        try:
            found.append((plan, opened.source.run(draw(plan, opened.specs, {}))))
        except ConvertError as error:
            missing.append(f"the source does not run at {_sizes(plan.dims)} ({error}); state other sizes with --dim")
    cases = [Case(plan.name, plan.origin, plan.dims, plan.seed, "") for plan, _ in found]
    return output_specs(cases, [outputs for _, outputs in found])


def _sizes(dims: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in dims.items())


def _flops(opened: Opened, feeds: Mapping[str, Any], missing: list[str]) -> Flops | None:
    if opened.source.loaded.kind is Kind.ONNX:
        missing.append("FLOPs are counted by torch, which an ONNX file does not need; inspect the module for them")
        return None
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    try:
        # oneDNN's recurrent layers are one operator that the counter does not know.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
                opened.source.run(feeds)
    except Exception as error:  # the counter's own formulas fail on what they were not written for
        missing.append(f"FLOPs could not be counted ({one_line(error)})")
        return None
    whole: Counter[str] = Counter()
    for target, count in counter.get_flop_counts().get("Global", {}).items():
        whole[operator_name(target)] += count
    return Flops(counter.get_total_flops(), {dim.name: dim.opt for dim in opened.dims}, dict(whole.most_common()))

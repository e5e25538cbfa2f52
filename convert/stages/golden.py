"""Stage 1: load the source and run it once. What it gives here is what every artifact is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from convert.cases import Plan, Spread, draw, plan_cases
from convert.errors import InputError, StageError
from convert.golden_io import CaseData, save_case
from convert.models.seeds import random_weights
from convert.qat.ranges import read_ranges
from convert.records import Case, Dim, Floor, Golden, InputSpec, ModelRef, OutputSpec, Quantization
from convert.serial import from_plain
from convert.specs import format_input
from convert.stages.branches import other_branches
from convert.stages.calibration import with_calibration
from convert.stages.finite import finite_values, require_numbers
from convert.stages.randomness import why_unrepeatable
from convert.stages.running import Source, open_source
from convert.stages.sizes import accepted_odd_sizes
from convert.validators.floor import error_figures, measure, scale_of
from convert.worker import Channel

Array = np.ndarray[Any, Any]
#: An output that moves by less than this share of its size is dominated by a constant.
_FLAT_SHARE = 1e-4


def run(args: dict[str, Any], channel: Channel) -> Golden:
    """Load, settle the inputs, draw the cases, run the source on all of them and write them to ``args['folder']``."""
    channel.say("loading the source")
    opened = open_source(args, channel)
    _require_repeatable(opened.source, opened.specs, opened.dims)
    ref = from_plain(ModelRef, args["ref"])
    notes = (*random_weights(ref, opened.source.loaded), *opened.notes)
    samples, said = opened.samples, tuple[str, ...]()
    if args.get("calibration"):
        asked = from_plain(Quantization, args["calibration"])
        samples, said = with_calibration(opened, asked, Path(args["store"]), channel, trust_pickle=ref.trust_pickle)
    spreads = _learned_spreads(ref, opened.specs) | _spreads(opened.specs, samples)
    notes = (*notes, *said)
    return _golden(opened.source, opened.specs, opened.dims, samples, spreads, notes, Path(args["folder"]), channel)


def _require_repeatable(source: Source, specs: Sequence[InputSpec], dims: Sequence[Dim]) -> None:
    feeds = draw(plan_cases(specs, dims)[0], specs, {})
    first = _explain(source.run, feeds, specs)
    if not first:
        raise InputError("the source gives no tensor, so there is nothing to prove; return at least one tensor")
    unreal = next((name for name, value in first.items() if value.dtype.kind == "c"), None)
    if unreal is not None:
        raise InputError(
            f"output {unreal} is {first[unreal].dtype}, and no runtime has complex outputs; return its "
            "parts, for example with torch.view_as_real"
        )
    why = why_unrepeatable(source, feeds, first)
    if why:
        raise InputError(why)


def _explain(
    run_once: Callable[[Mapping[str, Array]], dict[str, Array]], feeds: Mapping[str, Array], specs: Sequence[InputSpec]
) -> dict[str, Array]:
    try:
        return run_once(feeds)
    except StageError as error:  # the user's own module, with inputs that the user described
        told = " ".join(f"--input '{format_input(spec)}'" for spec in specs)
        raise InputError(f"{error.reason}; check the inputs, now {told}, and --dim") from error


def _golden(
    source: Source,
    specs: Sequence[InputSpec],
    dims: Sequence[Dim],
    sample_feeds: Sequence[dict[str, Array]],
    spreads: dict[str, Spread],
    notes: Sequence[str],
    folder: Path,
    channel: Channel,
) -> Golden:
    cases, shapes = [], []
    odd, odd_notes = accepted_odd_sizes(specs, dims, source.run)
    plans = plan_cases(specs, dims, odd)
    work = [(plan, draw(plan, specs, spreads)) for plan in plans]
    channel.say("looking for branches on data")
    branches, branch_notes = other_branches(source, plans[0], specs, spreads)
    work += branches
    work += [(_sample_plan(index, feeds, specs), feeds) for index, feeds in enumerate(sample_feeds)]
    for index, (plan, feeds) in enumerate(work):
        channel.say(f"running the source, case {index + 1} of {len(work)}")
        case, outputs = run_case(source, plan, feeds, specs, folder)
        cases.append(case)
        shapes.append(outputs)
    _require_same_outputs(cases, shapes)
    require_numbers(shapes)
    loaded = source.loaded
    notes = (*notes, *odd_notes, *branch_notes, *_flat_outputs(shapes[:2]), *source.notes())
    if source.truth_failure:
        notes = (*notes, f"the source cannot run in float64 ({source.truth_failure}); the limit is a stated constant")
    return Golden(
        loaded.kind,
        loaded.class_name,
        loaded.parameters,
        loaded.parameter_bytes,
        tuple(specs),
        tuple(dims),
        output_specs(cases, shapes),
        tuple(cases),
        "float64" if not source.truth_failure else "none",
        (*loaded.notes, *source.plan.notes, *notes),
    )


def run_case(
    source: Source, plan: Plan, feeds: dict[str, Array], specs: Sequence[InputSpec], folder: Path
) -> tuple[Case, dict[str, Array]]:
    """Run the source on ``feeds``, write the case to ``folder`` and give it with the outputs.

    Raises:
        InputError: the source fails on them.
    """
    outputs = _explain(source.run, feeds, specs)
    truths = (source.attempt(feeds, "float64") if not source.truth_failure else None) or {}
    halves = (source.attempt(feeds, "float16") if source.half else None) or {}
    floors: dict[str, Floor] = {
        name: measure(value, truths.get(name), halves.get(name))
        for name, value in outputs.items()
        if np.issubdtype(value.dtype, np.floating)
    }
    seed = plan.seed if plan.origin == "draw" else None
    case = Case(plan.name, plan.origin, plan.dims, seed, f"{plan.name}.npz", floors)
    save_case(folder / case.file, CaseData(feeds, outputs, truths))
    return case, outputs


def _sample_plan(index: int, feeds: Mapping[str, Array], specs: Sequence[InputSpec]) -> Plan:
    dims = {
        size: feeds[spec.name].shape[axis]
        for spec in specs
        for axis, size in enumerate(spec.shape)
        if isinstance(size, str)
    }
    return Plan(f"sample{index}", "sample", dims, 0)


def _spreads(specs: Sequence[InputSpec], samples: Sequence[Mapping[str, Array]]) -> dict[str, Spread]:
    """Draws look like the user's own data where there is some."""
    spreads = {}
    for spec in specs:
        joined = finite_values([feeds[spec.name] for feeds in samples])
        if joined.size and spec.dtype.startswith("float"):
            spreads[spec.name] = Spread(float(joined.mean()), float(joined.std()) or 1.0)
    return spreads


def _learned_spreads(ref: ModelRef, specs: Sequence[InputSpec]) -> dict[str, Spread]:
    """Draws lie within the ranges that training has seen: integers stand for nothing beyond them."""
    learned = read_ranges(ref.path)
    if learned is None:
        return {}
    spreads = {}
    for spec, name in zip(specs, learned["inputs"], strict=False):
        low, high = learned["points"][name]["low"], learned["points"][name]["high"]
        if spec.dtype.startswith("float"):
            spreads[spec.name] = Spread((low + high) / 2, (high - low) / 8 or 1.0)
    return spreads


def _flat_outputs(draws: Sequence[Mapping[str, Array]]) -> list[str]:
    """Name the outputs that two different draws hardly move: a check of such an output has little power."""
    notes = []
    for name, first in draws[0].items():
        second = draws[-1][name]
        if first.dtype.kind != "f" or first.shape != second.shape or not first.size:
            continue
        moved, _ = error_figures(first, second)
        if moved <= _FLAT_SHARE * scale_of(first):
            notes.append(
                f"output {name} hardly depends on the inputs (two draws differ by {moved:.2g}, its largest value is "
                f"{scale_of(first):.2g}), so its check says little"
            )
    return notes


def _require_same_outputs(cases: Sequence[Case], outputs: Sequence[Mapping[str, Array]]) -> None:
    first = {name: value.dtype for name, value in outputs[0].items()}
    for case, found in zip(cases, outputs, strict=True):
        if {name: value.dtype for name, value in found.items()} != first:
            raise InputError(
                f"the source gives other outputs in case {case.name} ({', '.join(found)}) than in case "
                f"{cases[0].name} ({', '.join(first)}); an artifact has one fixed set of outputs"
            )


def output_specs(cases: Sequence[Case], outputs: Sequence[Mapping[str, Array]]) -> tuple[OutputSpec, ...]:
    """The outputs as ``outputs`` of ``cases`` have them; raises ``InputError`` where their number of axes changes."""
    specs = []
    for name, value in outputs[0].items():
        shapes = [found[name].shape for found in outputs]
        if len({len(shape) for shape in shapes}) > 1:
            raise InputError(
                f"output {name} has {sorted({len(shape) for shape in shapes})} axes depending on the "
                "inputs; an artifact's output has a fixed number of axes"
            )
        axes = (_axis([shape[axis] for shape in shapes], [case.dims for case in cases]) for axis in range(value.ndim))
        specs.append(OutputSpec(name, str(value.dtype), tuple(axes)))
    return tuple(specs)


def _axis(sizes: Sequence[int], dims: Sequence[dict[str, int]]) -> int | str:
    if len(set(sizes)) == 1:
        return sizes[0]
    for name in dims[0]:
        if all(size == values[name] for size, values in zip(sizes, dims, strict=True)):
            return name
    return -1

"""Stage ``inspect``: all that can be said of a model without converting it."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from convert import __version__
from convert.cases import draw, plan_cases
from convert.errors import ConvertError, InputError
from convert.inspect_records import INSPECT_SCHEMA_VERSION, Found, Inspection, Operator, Questions, RouteAnswer
from convert.models.factory import one_line
from convert.models.health import size_of
from convert.models.load import Loaded, load
from convert.records import Kind, ModelRef
from convert.serial import from_plain
from convert.stages import inspect_ask
from convert.stages.inspect_graph import (
    Exported,
    as_operators,
    count_onnx,
    count_program,
    count_without_inputs,
    export,
)
from convert.stages.inspect_routes import ask, ask_about_graph
from convert.stages.inspect_run import run_all
from convert.stages.randomness import watch_run
from convert.stages.running import Opened, open_source
from convert.worker import Channel


def run(args: dict[str, Any], channel: Channel) -> Found | dict[str, Any]:
    """Look at ``args['ref']``; in another toolchain than torch's, only answer for its converters (``args['routes']``).

    Inputs that nobody stated and that cannot be found are no error: what needs them stands under ``missing``.

    Raises:
        InputError: the model cannot be loaded, or what the user said of its inputs does not fit it.
    """
    if "routes" in args:
        channel.say("asking converters which operators they know")
        return {"answers": inspect_ask.answer(args)}
    warnings.filterwarnings("ignore")
    channel.say("loading the source")
    ref = from_plain(ModelRef, args["ref"])
    loaded = load(ref)
    facts = _facts(loaded, ref)
    try:
        opened = open_source(args, channel, loaded)
    except InputError as error:
        if args["inputs"] or args["dims"] or args["samples"]:
            raise
        return _without_inputs(facts, loaded, ref, str(error))
    return _with_inputs(facts, opened, channel)


def _facts(loaded: Loaded, ref: ModelRef) -> Inspection:
    buffers, buffer_bytes = 0, 0
    layers: Counter[str] = Counter()
    if loaded.kind is not Kind.ONNX:
        buffers, buffer_bytes = size_of(item for item in loaded.module.buffers())
        parts = [part for part in loaded.module.modules() if not list(part.children())]
        layers.update(getattr(part, "original_name", type(part).__name__) for part in parts)
    path = Path(ref.path)
    return Inspection(
        schema_version=INSPECT_SCHEMA_VERSION,
        convert_version=__version__,
        path=ref.path,
        kind=loaded.kind,
        module=loaded.class_name,
        file_bytes=path.stat().st_size if path.is_file() and loaded.kind is not Kind.FACTORY else 0,
        parameters=loaded.parameters,
        parameter_bytes=loaded.parameter_bytes,
        buffers=buffers,
        buffer_bytes=buffer_bytes,
        arguments=loaded.parameter_names,
        inputs=loaded.inputs or (),
        layers=dict(layers.most_common()) if loaded.exported is None else {},
        notes=loaded.notes,
    )


def _without_inputs(facts: Inspection, loaded: Loaded, ref: ModelRef, why: str) -> Found:
    operators, where = count_without_inputs(loaded, ref.path)
    lacking = "outputs, FLOPs, randomness, state" + ("" if operators else ", operators and what targets say of them")
    missing = (f"{lacking}: {why}",)
    seen = replace(facts, operators=operators, operators_from=where, missing=missing)
    if loaded.kind is Kind.ONNX:
        answers, questions = ask_about_graph(ref.path)
        return Found(seen, questions, answers)
    unknown = "the inputs are not known"
    answers = {
        "onnx": tuple(RouteAnswer(route, None, reason=unknown) for route in ("dynamo", "torchscript")),
        "tflite": (RouteAnswer("litert-torch", None, reason=unknown),),
    }
    return Found(seen, Questions(None, None, unknown, unknown), answers)


def _with_inputs(facts: Inspection, opened: Opened, channel: Channel) -> Found:
    channel.say("running the source")
    ran = run_all(opened)
    loaded, source = opened.source.loaded, opened.source
    seen = replace(
        facts,
        inputs=opened.specs,
        dims=opened.dims,
        outputs=ran.outputs,
        flops=ran.flops,
        randomness=ran.randomness,
        state=ran.state,
        missing=ran.missing,
        notes=(*loaded.notes, *source.plan.notes, *opened.notes),
    )
    if loaded.kind is Kind.ONNX:
        answers, questions = ask_about_graph(source.path)
        return Found(replace(seen, operators=count_onnx(source.path), operators_from="ONNX graph"), questions, answers)
    channel.say("exporting the source")
    exported = export(opened)
    answers, questions = ask(exported, loaded.kind, bool(opened.dims), channel.say)
    seen = replace(seen, control_flow=exported.control_flow, notes=(*seen.notes, *_export_notes(exported)))
    if exported.program is not None:
        where = "exported program" if loaded.exported is not None else "torch.export"
        return Found(replace(seen, operators=count_program(exported.program), operators_from=where), questions, answers)
    operators, missing = _as_run(opened)
    where = "one run, since torch.export gives no program"
    return Found(
        replace(seen, operators=operators, operators_from=where, missing=(*seen.missing, *missing)), questions, answers
    )


def _export_notes(exported: Exported) -> Sequence[str]:
    told = exported.program is not None or exported.control_flow is not None
    return () if told else (f"torch.export gives no program: {exported.error}",)


def _as_run(opened: Opened) -> tuple[tuple[Operator, ...], tuple[str, ...]]:
    """What one run called, at the optimum; other inputs may call others."""
    feeds = draw(plan_cases(opened.specs, opened.dims)[0], opened.specs, {})
    try:
        return as_operators(watch_run(opened.source, feeds)[0]), ()
    except ConvertError as error:
        return (), (f"operators: the source could not be watched ({one_line(error)})",)

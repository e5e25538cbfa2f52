"""What the parent process does to inspect a model: one worker with torch, and one per toolchain with converters."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from convert.context import Context, ToolchainMissing
from convert.errors import ConvertError, InputError
from convert.inspect_records import Found, Inspection, Problem, RouteAnswer, TargetView
from convert.jobs import Ended, WorkerPython
from convert.logs import tail
from convert.options import Options
from convert.scratch import scratch_context
from convert.serial import from_plain
from convert.targets import TARGETS, load_target
from convert.targets.base import Route, Target

#: The routes of these are torch's own exporters and litert-torch, which the first worker has asked.
_TORCH = "core"
Asked = dict[tuple[str, str], RouteAnswer]


def look(options: Options, quiet: bool) -> Inspection:
    """Inspect the model of ``options``.

    Raises:
        InputError: it cannot be loaded, or what was said of its inputs does not fit it.
        ConvertError: the worker that looked at it failed.
    """
    with scratch_context(options, quiet, "inspect") as (context, say):
        return _look(context, say)


def _look(context: Context, say: Callable[[str], None]) -> Inspection:
    options = context.options
    args: dict[str, Any] = {
        "ref": options.ref,
        "inputs": options.inputs,
        "dims": options.dims,
        "samples": options.samples,
        "half": False,
    }
    ended = context.run("inspect", context.core(), "inspect", args, say)
    if not ended.ok:
        raise _error(ended)
    found = from_plain(Found, ended.value)
    others = _ask_others(context, found, say)
    views = tuple(_view(load_target(name), found, others) for name in TARGETS)
    return replace(found.inspection, targets=views)


def _error(ended: Ended) -> ConvertError:
    answer = ended.answer
    refused = answer.error == "input"
    error = InputError(answer.reason) if refused else ConvertError(f"the model could not be inspected: {answer.reason}")
    # The logs go with the folder; --debug still shows how the worker ended.
    error.add_note("\n".join(["log of the worker:", *tail(ended.log, 60)]))
    return error


def _ask_others(context: Context, found: Found, say: Callable[[str], None]) -> Asked:
    """Ask the converters that lie in other toolchains, one worker per toolchain, side by side."""
    groups: dict[str, list[tuple[str, Route]]] = {}
    dynamic = any(dim.max > dim.min for dim in found.inspection.dims)
    for name in TARGETS:
        target = load_target(name)
        for route in target.routes(target.precisions[0]):
            if route.toolchain != _TORCH and not target.device and (dynamic or not route.dynamic):
                groups.setdefault(route.toolchain, []).append((name, route))
    if found.questions.onnx is None and found.questions.program is None:
        why = found.questions.why_no_onnx
        return {(t, route.name): RouteAnswer(route.name, None, reason=why) for g in groups.values() for t, route in g}
    with ThreadPoolExecutor(max_workers=context.options.jobs) as pool:
        parts = pool.map(lambda group: _ask_toolchain(context, found, group[0], group[1], say), groups.items())
        return {key: answer for part in parts for key, answer in part.items()}


def _ask_toolchain(
    context: Context, found: Found, toolchain: str, routes: list[tuple[str, Route]], say: Callable[[str], None]
) -> Asked:
    try:
        python = _python(context, toolchain, routes)
        args = {"routes": [(target, route.name) for target, route in routes], "questions": found.questions}
        ended = context.run(f"inspect-{toolchain}", python, "inspect", args, say)
        why = "" if ended.ok else f"could not be asked ({ended.answer.reason})"
    except ToolchainMissing as error:
        why = str(error)
    if why:
        return {(target, route.name): RouteAnswer(route.name, None, reason=why) for target, route in routes}
    answers = [from_plain(RouteAnswer, item["answer"]) for item in ended.value["answers"]]
    return {(target, answer.route): answer for (target, _), answer in zip(routes, answers, strict=True)}


def _python(context: Context, toolchain: str, routes: list[tuple[str, Route]]) -> WorkerPython:
    borrows = next((route.borrows for _, route in routes if route.borrows), None)
    return context.python(toolchain, borrows)


def _view(target: Target, found: Found, others: Asked) -> TargetView:
    return TargetView(target.name, tuple(_answers(target, found, others)), tuple(_problems(target, found)))


def _answers(target: Target, found: Found, others: Asked) -> list[RouteAnswer]:
    """In the order in which a conversion tries the routes."""
    here = {answer.route: answer for answer in found.answers.get(target.name, ())}
    if target.device:
        why = f"needs {target.device}; its parser is asked when converting"
        return [RouteAnswer(route.name, None, reason=why) for route in target.routes(target.precisions[0])]
    names = [route.name for route in target.routes(target.precisions[0])]
    known = here | {route: answer for (name, route), answer in others.items() if name == target.name}
    # The routes of `onnx` are the exporters, which have no line of their own in the target.
    return [known[name] for name in names if name in known] or list(here.values())


def _problems(target: Target, found: Found) -> list[Problem]:
    """What is known of the model's operators, as torch calls them and as its ONNX graph does."""
    table = target.problem_operators()
    counts = {operator.name: operator.count for operator in found.inspection.operators}
    # An ONNX operator that came out of one of torch's is not said twice.
    reasons: dict[str, Problem] = {}
    for name in (*counts, *(found.questions.onnx or ())):
        if name in table and table[name] not in reasons:
            reasons[table[name]] = Problem(name, counts.get(name, 0), table[name])
    return list(reasons.values())

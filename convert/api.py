"""The Python interface: the pipeline of the command line, for modules and arrays that live in this process."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convert.errors import ConversionFailed, ConvertError, InputError
from convert.platforms import MANIFEST, folder_of, host_platform, named
from convert.records import SCHEMA_VERSION, Dim, Outcome, Report, Status
from convert.serial import read_json

if TYPE_CHECKING:
    from convert.options import Options

#: Options of the command line that have no meaning here, or are parameters of their own.
_NOT_HERE = frozenset({"target", "precision", "inputs", "dims", "samples", "out", "quiet", "debug", "help"})


def convert(
    model: Any,
    *,
    targets: str | Sequence[str],
    inputs: Any = None,
    precisions: str | Sequence[str] = "float32",
    dims: Mapping[str, Any] | Sequence[str | Dim] | str | Dim | None = None,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    samples: Any = None,
    out: str | os.PathLike[str] | None = None,
    check: bool = False,
    progress: bool = True,
    **options: Any,
) -> Report:
    """Convert ``model`` to every target and prove each artifact against it, as the command line does.

    Args:
        model: a ``torch.nn.Module``, TorchScript module or exported program, which is left exactly as it is; or what
            the command line takes: a file, ``file.py:factory`` or ``package.module:factory``.
        targets: names, as ``["onnx", "tflite"]`` or ``"onnx,tflite"``.
        inputs: specs (``'x=float32[N,3,224,224]'``, a list of them, or a dict by input name), or examples: tensors or
            arrays, alone, as a tuple or list in the order of ``forward``, or as a dict by name. Examples fix every
            size, and their values become samples unless ``samples`` is given.
        precisions: names, as ``targets``.
        dims: smallest, usual and largest size of dynamic dimensions: ``{"N": (1, 4, 16)}`` or ``["N=1..4..16"]``.
            With examples, and without ``dynamic``, a single one is the first axis of them all.
        dynamic: the dynamic axes of examples: ``{"x": {0: "N"}}``.
        samples: real inputs: a file, arrays by input name, or a list of such.
        out: output folder, ``dist/NAME`` if not given.
        check: raise unless all that was asked for is proven.
        progress: say on standard error, or in the notebook, what is being done.
        options: any other option of ``convert run``, with underscores and by the name in its long form:
            ``bench_seconds=0``, ``trust_pickle=True``, ``memory="8G"``; ``--model`` is ``factory``. ``calibration``
            and ``evaluation`` can be data themselves: arrays whose first axis counts samples, a ``Dataset``, a
            ``DataLoader``, or an iterable of samples.

    Returns:
        The report, whatever became of single targets; its ``options["out"]`` is the output folder.

    Raises:
        InputError: the model or an option cannot be used; nothing is written then.
        ConversionFailed: with ``check``, an artifact failed or was deferred; the report is in its ``report``.
        ConvertError: the source itself does not run.
    """
    given = {"target": targets, "precision": precisions, **_known(options)}
    with tempfile.TemporaryDirectory(prefix="convert-") as folder:
        folder_out = _run(model, (inputs, dims, dynamic, samples), given, out, Path(folder), progress)
    report = load_report(folder_out)
    if check and report.exit_code:
        raise ConversionFailed(_first_reason(report), report)
    return report


def load_report(folder: str | os.PathLike[str]) -> Report:
    """Read the report of an output folder; ``options["out"]`` is then the folder, wherever it has been moved to.

    Raises:
        InputError: there is no report in it, or one that this version cannot read.
    """
    place = Path(folder).resolve()
    file = place / "report.json"
    if not file.is_file():
        raise InputError(f"{folder} has no report.json; give the output folder of a run")
    try:
        report = read_json(Report, file)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(_unreadable(file, error)) from error
    return replace(report, options=report.options | {"out": str(place)})


def artifact_path(report: Report, target: str, precision: str = "float32", platform: str | None = None) -> Path:
    """The file of a proven artifact, absolute: the one to give to the runtime, where there are several.

    Raises:
        InputError: that was not asked for, did not pass, is no longer there, or is no one file.
    """
    outcome = outcome_of(report, target, precision, platform)
    if outcome.status is not Status.PASSED:
        raise InputError(f"{_name(report, outcome)} has no proven artifact: it is {_story(outcome)}")
    folder = Path(_folder(report)) / folder_of(target, precision, outcome.platform, _host(report))
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise InputError(f"there is no file {manifest}; was the output folder moved? read it with load_report(FOLDER)")
    known = json.loads(manifest.read_text(encoding="utf-8"))
    modules = known.get("settings", {}).get("buckets", ())
    if len(modules) > 1:
        raise InputError(
            f"{_name(report, outcome)} has {len(modules)} modules, one for each range of sizes, and no one file that "
            f"serves all; `settings` in {manifest} says which is for which"
        )
    return folder / str(known["files"][0])


def outcome_of(report: Report, target: str, precision: str = "float32", platform: str | None = None) -> Outcome:
    """How one target at one precision ended; ``platform`` is needed only where there are several.

    Raises:
        InputError: the run was not asked for it, or for several platforms and none of them this host.
    """
    asked = [one for one in report.artifacts if (one.target, one.precision) == (target, precision)]
    host = _host(report)
    fitting = [one for one in asked if platform in (None, one.platform)]
    if platform is None and len(fitting) > 1:
        fitting = [one for one in fitting if one.platform == host]
    if fitting:
        return fitting[0]
    if asked and platform is None:
        several = ", ".join(one.platform for one in asked)
        raise InputError(f"the report has {target} {precision} for {several}; say which one with platform=")
    known = ", ".join(_name(report, one) for one in report.artifacts)
    wanted = " ".join(part for part in (target, platform or "", precision) if part)
    raise InputError(f"the report has no {wanted}; it has {known}")


def show(report: Report) -> None:
    """Print the table of the command line: on standard output, or in the notebook."""
    from rich.console import Console

    from convert.report.table import print_report

    console = Console()
    # A pipe or a file has no width to fit into.
    wide = console if console.is_terminal or console.is_jupyter else Console(width=200)
    print_report(report, wide, _folder(report))


def _run(
    model: Any,
    asked: tuple[Any, Any, Any, Any],
    given: dict[str, Any],
    out: str | os.PathLike[str] | None,
    folder: Path,
    progress: bool,
) -> Path:
    """Run the pipeline on what the caller gave, with ``folder`` for all that has to be a file; gives the output."""
    from rich.console import Console

    from convert import pipeline
    from convert.api_data import write_data
    from convert.api_inputs import read_inputs, write_samples
    from convert.api_live import Saved, forward_names, is_live, save_live
    from convert.progress import Progress

    inputs, dims, dynamic, samples = asked
    for name in ("calibration", "evaluation"):
        data = given.get(name)
        if data is not None and not isinstance(data, str | os.PathLike):
            given[name] = write_data(data, folder / name)
    live = is_live(model)
    read = read_inputs(inputs, dims, dynamic, forward_names(model) if live else None)
    saved = save_live(model, folder) if live else Saved("", _path(model))
    if samples is None:
        samples = read.examples or None
    if samples is not None and not isinstance(samples, str | os.PathLike):
        samples = write_samples(samples, folder / "samples")
    if live and out is None:
        out = Path("dist") / saved.name
    given |= {"inputs": read.specs, "dims": read.dims, "samples": samples, "out": out, **saved.options}
    words = _words(saved.path, given)
    try:
        settled = _options(words)
        pipeline.run(settled, words, Progress(Console(stderr=True), quiet=not progress))
    except ConvertError as error:
        if live:
            error.args = (str(error).replace(saved.path, f"the module {saved.name}"),)
        raise
    return settled.out


def _path(model: Any) -> str:
    if isinstance(model, str | os.PathLike):
        return os.fspath(model)
    kind = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
    raise InputError(
        f"the model is {kind}; give a torch.nn.Module (an instance), an exported program, a file or 'file.py:factory'"
    )


def _parameters() -> dict[str, Any]:
    """The options of the command line by keyword; what it gains later is known here at once."""
    import click

    from convert.cli import run

    return {item.name: item for item in run.params if isinstance(item, click.Option) and item.name}


def _known(options: dict[str, Any]) -> dict[str, Any]:
    known = _parameters().keys() - _NOT_HERE
    for name in options:
        if name not in known:
            raise InputError(f"there is no option {name!r}; there are {', '.join(sorted(known))}")
    return options


def _words(model: str, given: Mapping[str, Any]) -> list[str]:
    """The command line that asks for the same."""
    known = _parameters()
    return [word for name, value in given.items() for word in _option_words(known[name], value)] + ["--", model]


def _option_words(option: Any, value: Any) -> list[str]:
    word = max(option.opts, key=len)
    if value is None:
        return []
    if option.is_flag:
        if not isinstance(value, bool):
            raise InputError(f"{option.name} is {value!r}; give True or False")
        return [word] if value else []
    if isinstance(value, Mapping):  # of Python's own values, for options of the form NAME=LITERAL
        value = [f"{name}={item!r}" for name, item in value.items()]
    several = [value] if isinstance(value, str) or not isinstance(value, Sequence) else list(value)
    return [f"{word}={item}" for item in several] if option.multiple else [f"{word}={','.join(map(str, several))}"]


def _options(words: list[str]) -> Options:
    import click

    from convert import cli

    try:
        with cli.run.make_context("convert", list(words)) as context:
            settled: Options = cli._options(context.params.pop("model"), context.params)
    except click.UsageError as error:
        raise InputError(error.format_message()) from error
    return settled


def _folder(report: Report) -> str:
    if "out" not in report.options:
        raise InputError("this report does not say where its files are; read it with load_report(FOLDER)")
    return str(report.options["out"])


def _first_reason(report: Report) -> str:
    for status in (Status.FAILED, Status.DEFERRED, Status.SKIPPED):
        for outcome in report.artifacts:
            if outcome.status is status:
                return f"{_name(report, outcome)} is {_story(outcome)}"
    raise ValueError("a report without artifacts")


def _host(report: Report) -> str:
    """The platform of the host that the report is from, which may be another one than this."""
    system, processor = report.host.get("system"), report.host.get("machine")
    return named(str(system).lower(), str(processor)) if system and processor else host_platform()


def _name(report: Report, outcome: Outcome) -> str:
    foreign = outcome.platform if outcome.platform != _host(report) else ""
    return " ".join(part for part in (outcome.target, foreign, outcome.precision) if part)


def _story(outcome: Outcome) -> str:
    return f"{outcome.status} at {outcome.stage}: {outcome.reason}"


def _unreadable(file: Path, error: Exception) -> str:
    try:
        version = json.loads(file.read_text(encoding="utf-8"))["schema_version"]
    except (ValueError, TypeError, KeyError):
        return f"{file} is no report ({type(error).__name__}); give the output folder of a run"
    if version != SCHEMA_VERSION:
        return f"{file} has the schema version {version}, and this convert reads {SCHEMA_VERSION}; update it"
    return f"{file} does not fit its schema version ({error}); make it again"

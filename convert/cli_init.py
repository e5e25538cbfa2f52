"""``convert init MODEL``: write a ``convert.toml`` to start from."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

import click

from convert.cli_types import AnyPath
from convert.errors import ConvertError, InputError
from convert.paths import exists, is_folder

_THERE = "is there already; write to another file with --out, or over it with --force"


@click.command()
@click.argument("model")
@click.option("--model", "factory", metavar="FILE.py:NAME", help="For a checkpoint: what makes its module.")
@click.option("--constant", "constants", multiple=True, metavar="NAME=VALUE", help="As for `convert run`.")
@click.option("--code", multiple=True, metavar="DIR", help="As for `convert run`.")
@click.option("--trust-pickle", is_flag=True, help="Allow the model file to run code while it is loaded.")
@click.option("--out", "-o", type=AnyPath(), help="File to write [default: beside the model].")
@click.option("--force", is_flag=True, help="Write it over a file that is there.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def init(model: str, out: Path | None, force: bool, quiet: bool, debug: bool, **given: Any) -> None:
    """Write a convert.toml for MODEL, with its inputs as its file says them or as trying finds them."""
    from convert.config import NAME
    from convert.run_options import find_model

    del debug
    ref = find_model(model, given)
    place = out or Path(ref.path).parent / NAME
    if is_folder(place):
        place /= NAME
    if exists(place) and not force:
        raise InputError(f"{place} {_THERE}")
    if not is_folder(place.parent):
        raise InputError(
            f"{place} cannot be written, since {place.parent} is no folder; choose another file with --out"
        )
    found = _interface(ref, quiet)
    _write(place, _text(model, ref, found, place), force)
    for note in found["notes"]:
        click.echo(note, err=True)
    click.echo(f"wrote {place}" + ("" if found["inputs"] else f": {found['unknown']}"))


def _interface(ref: Any, quiet: bool) -> dict[str, Any]:
    """Ask a worker, since the model has to be loaded."""
    from rich.console import Console

    from convert.jobs import Limits, Runner, WorkerPython
    from convert.progress import Progress
    from convert.serial import to_plain
    from convert.toolchains import find, install_command

    core = find("core")
    if core is None:
        raise InputError(f"the toolchain core is not installed; get it with `{install_command('core')}`")
    progress = Progress(Console(stderr=True), quiet)
    with tempfile.TemporaryDirectory(prefix="convert-") as folder, progress:
        runner = Runner(Path(folder) / "jobs", Path(folder), Limits(600))
        python = WorkerPython(core.python, own_environment=core.origin != "current")
        try:
            ended = runner.run(
                "init", python, "interface", {"ref": to_plain(ref)}, lambda text: progress.say("source", text)
            )
        except BaseException:
            runner.interrupt()
            raise
    if not ended.ok:
        kind = InputError if ended.answer.error == "input" else ConvertError
        raise kind(ended.answer.reason)
    return ended.value


def _text(model: str, ref: Any, found: dict[str, Any], place: Path) -> str:
    from convert.config import NAME
    from convert.config_text import Known, render
    from convert.records import Kind

    folder = place.absolute().parent
    values = {"target": ["onnx"], "input": found["inputs"] or None, "dim": found["dims"] or None}
    values["constant"] = list(ref.constants) or None
    values["code"] = [_relative(path, folder) for path in ref.code] or None
    if ref.factory_file is not None:
        values["model"] = f"{_relative_module(ref.factory_file, folder)}:{ref.factory}"
    ranges = [f"{name} still needs its range, as in {name}=MIN..OPT..MAX" for name in found["open"]]
    notes = {"input": [*found["notes"], *filter(None, [found["unknown"]])], "dim": ranges}
    known = Known(
        model, str(ref.kind), found["module"], found["parameters"], values, notes, pickle=ref.kind is Kind.PICKLE
    )
    return render(known, NAME)


def _relative(path: str, folder: Path) -> str:
    """``path`` as seen from ``folder``, where it lies below it; else absolute."""
    inside = Path(path).is_relative_to(folder)
    return Path(path).relative_to(folder).as_posix() if inside else path


def _relative_module(path: str, folder: Path) -> str:
    """The file or module of a factory as seen from ``folder``; an installed module by its name alone."""
    from convert.models.detect import lies_in_folder

    there = Path(path).is_file() or lies_in_folder(Path(path))
    return _relative(path, folder) if there else Path(path).name


def _write(place: Path, text: str, force: bool) -> None:
    """Write the file whole or not at all; without ``force``, never over another one."""
    temporary = place.with_name(f".{place.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        if not force:
            place.touch(exist_ok=False)
        os.replace(temporary, place)
    except FileExistsError:
        raise InputError(f"{place} {_THERE}") from None
    except (OSError, UnicodeEncodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "a name in it is no text"
        raise InputError(f"{place} cannot be written ({why}); choose another file with --out") from error
    finally:
        with contextlib.suppress(OSError):  # on a disk that cannot be written nothing was made, either
            temporary.unlink(missing_ok=True)

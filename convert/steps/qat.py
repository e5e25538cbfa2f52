"""What the parent process does for ``convert qat``: one worker with torch trains, and its file is put in place."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from rich.console import Console

from convert.context import Context
from convert.errors import ConvertError, InputError
from convert.jobs import Limits, Runner
from convert.logs import tail
from convert.options import Options
from convert.progress import Progress


def train(options: Options, function: tuple[str, str], epochs: int, out: Path, seed: int, *, quiet: bool) -> Path:
    """Train the model of ``options`` by ``function`` (file, name) and write the program ``out``; gives ``out``.

    Raises:
        InputError: the model cannot be loaded or prepared, or ``out`` cannot be written.
        ConvertError: training failed.
    """
    if out.is_dir() or not out.parent.is_dir():
        raise InputError(f"--out {out} cannot be written; name a file in a folder that exists")
    with tempfile.TemporaryDirectory(prefix="convert-qat-") as folder:
        place = Path(folder)
        for name in ("work", "logs"):
            (place / name).mkdir()
        runner = Runner(place / "work" / "jobs", place / "logs", Limits(options.timeout, options.memory))
        made = out.with_name(f".{out.name}.partial-{os.getpid()}")
        try:
            with Progress(Console(stderr=True), quiet=quiet) as progress:
                _train(Context(options, place, runner), function, epochs, seed, made, progress)
            os.replace(made, out)
        except BaseException:
            runner.interrupt()
            raise
        finally:
            made.unlink(missing_ok=True)
    return out


def _train(context: Context, function: tuple[str, str], epochs: int, seed: int, file: Path, progress: Progress) -> None:
    options = context.options
    args = {
        "ref": options.ref,
        "inputs": options.inputs,
        "dims": options.dims,
        "samples": options.samples,
        "train": function,
        "epochs": epochs,
        "seed": seed,
        "file": str(file),
    }
    ended = context.run("qat", context.core(), "qat", args, lambda text: progress.say("qat", text))
    if not ended.ok:
        refused = ended.answer.error == "input"
        error = InputError(ended.answer.reason) if refused else ConvertError(f"training failed: {ended.answer.reason}")
        error.add_note("\n".join(["log of the worker:", *tail(ended.log, 60)]))
        raise error

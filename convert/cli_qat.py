"""``convert qat MODEL``: train a model to live with integers, for cases that need no program of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

_HOW = """
FILE.py:NAME is a function ``train(module, epoch)`` of yours. It gets the prepared module, which trains as any
torch.nn.Module, and the number of the epoch from 0, and trains it for one epoch. What it returns is shown.
"""


@click.command(epilog=_HOW)
@click.argument("model")
@click.option("--train", required=True, metavar="FILE.py:NAME", help="Function that trains for one epoch; see below.")
@click.option("--epochs", type=click.IntRange(min=1), default=1, show_default=True, help="How often it is called.")
@click.option(
    "--out", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Program to write [default: NAME-qat.pt2]."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of torch's random numbers.")
@click.option(
    "--model", "factory", metavar="FILE.py:NAME", help="For a checkpoint: what makes the module that it fills."
)
@click.option("--input", "inputs", multiple=True, metavar="SPEC", help="'x=float32[N,3,224,224]', as for a conversion.")
@click.option("--dim", "dims", multiple=True, metavar="SPEC", help="'N=1..4..16', as for a conversion.")
@click.option(
    "--samples", metavar="FILE", help="Real inputs, from which shapes are known: .npz, .pt, file.py:function."
)
@click.option(
    "--code", multiple=True, metavar="DIR", help="Folder with modules that the model's code needs; repeatable."
)
@click.option("--trust-pickle", is_flag=True, help="Allow the model file to run code while it is loaded.")
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="Options from a file, as for a conversion."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=86400.0,
    show_default=True,
    help="Seconds that training may take.",
)
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def qat(model: str, **given: Any) -> None:
    """Train MODEL with fake quantization and save it with the ranges that it learned.

    The file then converts to int8 without calibration data: convert NAME-qat.pt2 --target tflite --precision int8.
    Exit code: 0 done; 1 training failed; 2 bad input or usage.
    """
    from convert.models.detect import split_factory
    from convert.steps.qat import train

    wanted = {name: given.pop(name) for name in ("train", "epochs", "out", "seed")}
    where = split_factory(wanted["train"])
    options = _options(model, given)
    out = wanted["out"] or Path(f"{_stem(model)}-qat.pt2")
    file = train(options, where, wanted["epochs"], out.absolute(), wanted["seed"], quiet=given["quiet"])
    click.echo(f"{file}\nnext: convert {file} --target tflite --precision float32,int8")


def _stem(model: str) -> str:
    path = Path(model)
    return path.stem if path.exists() else model.rpartition(":")[2].rpartition(".")[2]


def _options(model: str, given: dict[str, Any]) -> Any:
    """The options of a run, so that both commands read every word alike."""
    from convert.cli_inspect import _options as as_for_inspect

    return as_for_inspect(model, given)

"""``convert tune MODEL`` only looks for faster kernels of tvm; ``convert tuning`` is about what it found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from convert.cli_types import AnyPath

#: Options of a conversion that mean something here too: where the model is from, its inputs, and the CPU.
_HERE = frozenset(
    {"factory", "inputs", "dims", "samples", "constants", "code", "trust_pickle", "config", "opset"}
    | {"timeout", "memory", "platform", "cpu", "device", "tuning_db"}
)


class _LikeRun(click.Command):
    """A command that takes some options of ``convert run`` after its own, so that every word means the same."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        from convert import cli

        return [*super().get_params(ctx), *(item for item in cli.run.params if item.name in _HERE)]


@click.command(cls=_LikeRun)
@click.argument("model")
@click.option(
    "--tune",
    metavar="TRIALS|MINUTES",
    default="10m",
    show_default=True,
    help="When to end: after 500 trials, or 10m, over all runs for these kernels.",
)
@click.option("--quiet", "-q", is_flag=True, help="No progress, only the result.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def tune(model: str, **given: Any) -> None:
    """Look for faster kernels of tvm for MODEL and keep them for every later build; makes no artifact.

    An interrupted run keeps what it measured; the same command goes on from there. Exit code: 0; 1 it failed;
    2 bad input or usage.
    """
    from convert.tuning_steps import tune_model

    click.echo(tune_model(_options(model, given), quiet=given["quiet"]))


def _options(model: str, given: dict[str, Any]) -> Any:
    """The options of a run to tvm alone."""
    from convert import cli, config
    from convert.run_options import settle

    context = click.get_current_context()

    def said(name: str) -> bool:
        if name in ("target", "precision"):
            return True  # those of the file are for conversions
        return name in context.params and context.get_parameter_source(name) is not ParameterSource.DEFAULT

    usual = cli.run.make_context("run", [model]).params
    usual.pop("model")
    mine = {name: value for name, value in given.items() if name != "tune" or said(name)}
    values: dict[str, Any] = usual | {"target": "tvm", "precision": "float32"} | mine
    kept = {name: value for name, value in usual.items() if name not in _HERE | {"tune", "target", "precision"}}
    used = config.fill(model, values, values.pop("config"), said)
    # What a file says of conversions only has no meaning here.
    values |= {"out": Path("unused"), **{name: kept[name] for name in kept if name not in ("config", "out")}}
    values["tune"] = values["tune"] or given["tune"]
    return settle(model, values, used)


@click.group()
def tuning() -> None:
    """The tuned kernels of tvm: what there is, and files to take elsewhere."""


@tuning.command("list")
def tuning_list() -> None:
    """Say of every database which CPU and TVM it is for, and how much is in it."""
    from convert.tuning_files import print_databases

    print_databases()


@tuning.command("export")
@click.argument("name")
@click.argument("file", type=AnyPath())
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def tuning_export(name: str, file: Path, debug: bool) -> None:
    """Write the database NAME of `convert tuning list` to FILE, for --tuning-db or `convert tuning merge` elsewhere."""
    from convert.tuning_files import export

    del debug
    click.echo(export(name, file))


@tuning.command("merge")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def tuning_merge(files: tuple[str, ...], debug: bool) -> None:
    """Take what is in FILE... over into the databases here, each into that of its CPU; nothing here is lost."""
    from convert.tuning_files import merge

    del debug
    for line in merge(files):
        click.echo(line)


@tuning.command("remove")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def tuning_remove(names: tuple[str, ...]) -> None:
    """Delete the databases NAME... of `convert tuning list`."""
    from convert.tuning_files import remove

    for line in remove(names):
        click.echo(line)

"""``convert sensitivity MODEL``: which layers lose most when they compute in integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

#: Options of a conversion that have no meaning here; all others are the same for both commands.
_NOT_HERE = frozenset(
    {"model", "target", "precision", "out", "bench_seconds", "allow_deferred", "jobs", "quiet", "debug"}
    | {"auto_mixed", "require_full_integer", "io_type", "min_sqnr", "metric", "max_drop", "platform", "cpu", "device"}
    | {"gpu", "workspace", "hardware_compatible", "engine_flags"}
    | {"provider", "max_cpu_ops", "tune", "tuning_db"}
)


class _LikeRun(click.Command):
    """A command that takes the options of ``convert run`` after its own, so that every word means the same."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        from convert import cli

        return [*super().get_params(ctx), *(item for item in cli.run.params if item.name not in _NOT_HERE)]


@click.command(cls=_LikeRun)
@click.argument("model")
@click.option("--target", "-t", default="tflite", show_default=True, metavar="NAME", help="The runtime.")
@click.option(
    "--precision", "-p", default="int8", show_default=True, metavar="NAME", help="int8, or int16x8 where there is one."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output instead of a table.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def sensitivity(model: str, as_json: bool, **given: Any) -> None:
    """Rank the layers of MODEL by the noise that each adds when it alone computes in integers; nothing is written.

    Needs --calibration. Exit code: 0; 1 the float32 artifact or the ranking failed; 2 bad input or usage.
    """
    from convert.sensitivity_steps import look_for_layers, print_layers, write_layers

    options = _options(model, given)
    found = look_for_layers(options, quiet=given["quiet"])
    if as_json:
        write_layers(found)
    else:
        print_layers(found)


def _options(model: str, given: dict[str, Any]) -> Any:
    """The options of a run to the one target at the one precision."""
    from convert import cli, config
    from convert.run_options import settle

    context = click.get_current_context()

    def said(name: str) -> bool:
        if name in ("target", "precision"):
            return True  # those of the file are for conversions, and may be several
        return name in context.params and context.get_parameter_source(name) is not ParameterSource.DEFAULT

    usual = cli.run.make_context("run", [model]).params
    usual.pop("model")
    values = usual | given
    used = config.fill(model, values, values.pop("config"), said)
    # Layers are ranked on the CPU, and no engine is built.
    values |= {"out": Path("unused"), "provider": "cpu", "max_cpu_ops": None}
    values |= {"gpu": (), "workspace": None, "hardware_compatible": None, "engine_flags": ()}
    values |= {"tune": None, "tuning_db": None}
    options = settle(model, values, used)
    for name, chosen in (("--target", options.targets), ("--precision", options.precisions)):
        if len(chosen) != 1:
            raise click.BadParameter(f"{', '.join(chosen)} are several; layers are ranked for one", param_hint=name)
    return options

"""``convert inspect MODEL``: look before converting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from convert.cli_types import AnyPath, Seconds


@click.command()
@click.argument("model")
@click.option(
    "--model", "factory", metavar="FILE.py:NAME", help="For a checkpoint: what makes the module that it fills."
)
@click.option("--input", "inputs", multiple=True, metavar="SPEC", help="'x=float32[N,3,224,224]', as for a conversion.")
@click.option("--dim", "dims", multiple=True, metavar="SPEC", help="'N=1..4..16', as for a conversion.")
@click.option("--samples", metavar="FILE", help="Real inputs: .npz, .pt or file.py:function.")
@click.option(
    "--constant", "constants", multiple=True, metavar="NAME=VALUE", help="Fix an argument of forward; repeatable."
)
@click.option(
    "--code", multiple=True, metavar="DIR", help="Folder with modules that the model's code needs; repeatable."
)
@click.option("--trust-pickle", is_flag=True, help="Allow the model file to run code while it is loaded.")
@click.option("--config", type=AnyPath(), metavar="FILE", help="Options from a file, as for a conversion.")
@click.option(
    "--timeout",
    type=Seconds(min=0, min_open=True),
    metavar="SECONDS",
    default=600.0,
    show_default=True,
    help="Seconds that looking may take.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output instead of tables.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def inspect(model: str, as_json: bool, **given: Any) -> None:
    """Say what MODEL is and what stands in the way of converting it; nothing is converted or written.

    Exit code: 0, also where something could not be found out (it is said what); 2 bad input or usage.
    """
    from convert.inspect_print import print_inspection, write_json
    from convert.inspect_steps import look

    found = look(_options(model, given), quiet=given["quiet"])
    if as_json:
        write_json(found)
    else:
        print_inspection(found)


def _options(model: str, given: dict[str, Any]) -> Any:
    """The options of a run with all targets, so that both commands read every word alike."""
    from convert import cli, config
    from convert.quantize_options import OPTIONS as QUANTIZATION
    from convert.run_options import settle
    from convert.targets import TARGETS

    context = click.get_current_context()

    def said(name: str) -> bool:
        return name in context.params and context.get_parameter_source(name) is not ParameterSource.DEFAULT

    usual = cli.run.make_context("run", [model]).params
    usual.pop("model")
    values = usual | given
    used = config.fill(model, values, values.pop("config"), said)
    values |= {"target": ",".join(TARGETS), "precision": "float32", "opset": None, "out": Path("unused")}
    values |= dict.fromkeys(QUANTIZATION, None) | {"require_full_integer": False, "auto_mixed": False}
    return settle(model, values, used)

"""The command line. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
from types import FrameType
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from convert import __version__
from convert.cli_init import init
from convert.cli_inspect import inspect
from convert.cli_qat import qat
from convert.cli_recipe import build_recipe, merge
from convert.cli_sensitivity import sensitivity
from convert.cli_tune import tune, tuning
from convert.cli_types import AnyPath, Count, Number, Seconds
from convert.errors import ConvertError
from convert.texts import one_line

_INTERRUPTED = 130


class _DefaultGroup(click.Group):
    """``convert MODEL`` is ``convert run MODEL``: the first word is a command only if one has that name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            args = ["run", *args]
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # An option before MODEL belongs to ``run`` unless it is one of the group's own.
        if args and args[0].startswith("-") and args[0] not in ("--help", "-h", "--version"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


_HELP = """Take a PyTorch model to every runtime, and prove each artifact against the source.

\b
convert model.pt2 --target onnx,tflite,tvm,trt
convert net.py:make_model --input 'x=float32[N,3,224,224]' --target tflite
"""


@click.group(cls=_DefaultGroup, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="convert")
def cli() -> None:
    """The command and its subcommands."""


@cli.command()
@click.argument("model")
@click.option(
    "--target",
    "-t",
    metavar="NAMES",
    help="Runtimes, with commas between them; see `convert targets`. Required here or in convert.toml.",
)
@click.option(
    "--precision",
    "-p",
    default="float32",
    show_default=True,
    metavar="NAMES",
    help="float32, float16, int8-dynamic, int8, int16x8 (several with commas); see `convert targets`.",
)
@click.option(
    "--model", "factory", metavar="FILE.py:NAME", help="For a checkpoint: what makes the module that it fills."
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="SPEC",
    help="'x=float32[N,3,224,224]', repeatable; a word is a dynamic dimension. Integers: 'ids=int64[N,T]{0..999}'.",
)
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="SPEC",
    help="'N=1..4..16': smallest, usual and largest size of a dynamic dimension; repeatable.",
)
@click.option("--samples", metavar="FILE", help="Real inputs: .npz, .pt or file.py:function.")
@click.option(
    "--constant",
    "constants",
    multiple=True,
    metavar="NAME=VALUE",
    help="Fix an argument of forward that is no tensor: 'steps=4', 'mask=None'; repeatable.",
)
@click.option(
    "--code", multiple=True, metavar="DIR", help="Folder with modules that the model's code needs; repeatable."
)
@click.option("--trust-pickle", is_flag=True, help="Allow the model file to run code while it is loaded.")
@click.option(
    "--config",
    type=AnyPath(),
    metavar="FILE",
    help="Options from a file [default: convert.toml beside the model, if there is one].",
)
@click.option("--opset", type=int, help="ONNX opset (13 or newer) [default: the newest that all targets read].")
@click.option("--out", "-o", type=AnyPath(), help="Output folder [default: dist/NAME].")
@click.option(
    "--timeout",
    type=Seconds(min=0, min_open=True),
    metavar="SECONDS",
    default=600.0,
    show_default=True,
    help="Seconds that one stage of one route may take.",
)
@click.option("--memory", metavar="SIZE", help="Memory that one worker may use, such as 8G [default: no limit].")
@click.option(
    "--threads",
    type=Count(min=1),
    metavar="N",
    default=1,
    show_default=True,
    help="Threads of the checked and timed sessions.",
)
@click.option(
    "--jobs",
    "-j",
    type=Count(min=1),
    metavar="N",
    default=min(2, os.cpu_count() or 1),
    show_default=True,
    help="Targets built side by side.",
)
@click.option(
    "--bench-seconds",
    type=Seconds(min=0),
    metavar="SECONDS",
    default=4.0,
    show_default=True,
    help="Time for the latency of one artifact; 0 for none.",
)
@click.option("--calibration", metavar="DATA", help="Real inputs for int8: .npz, .npy, .pt, folder, file.py:function.")
@click.option("--evaluation", metavar="DATA", help="Held-out inputs to measure quality on [default: --calibration].")
@click.option("--preprocess", metavar="FILE.py:NAME", help="From an image file of such a folder to an input.")
@click.option(
    "--calibration-samples", type=click.IntRange(min=1), metavar="N", help="Use the first N samples [default: all]."
)
@click.option(
    "--range",
    type=click.Choice(["minmax", "percentile", "mse"]),
    help="How ranges follow from values [default: minmax].",
)
@click.option(
    "--percentile",
    type=Number(min=50, max=100, min_open=True),
    metavar="P",
    help="Share of values, in percent, that a range holds [default: 99.99].",
)
@click.option(
    "--io-type", type=click.Choice(["float", "int8"]), help="What integer artifacts take and give [default: float]."
)
@click.option("--require-full-integer", is_flag=True, help="Fail where an operator of an int8 file computes in float.")
@click.option("--auto-mixed", is_flag=True, help="Keep the fewest layers in float with which int8 meets its gates.")
@click.option(
    "--min-sqnr",
    type=Number(min=0),
    metavar="DB",
    help="Lowest SQNR of integer artifacts [default: 15].",
)
@click.option("--metric", metavar="FILE.py:NAME", help="Your own figure of quality, larger is better.")
@click.option("--max-drop", type=Number(min=0), metavar="X", help="How far --metric may fall below the source's.")
@click.option(
    "--platform",
    multiple=True,
    metavar="NAMES",
    help="What artifacts are for: linux/arm64, android/arm64, … (several with commas) [default: this host].",
)
@click.option(
    "--cpu", multiple=True, metavar="NAMES", help="CPU to make code for: cortex-a72, rpi5, …; see `convert platforms`."
)
@click.option(
    "--device",
    multiple=True,
    metavar="WHERE",
    help="Prove and time on a device: ssh://user@host or adb:SERIAL; repeatable.",
)
@click.option("--gpu", multiple=True, metavar="NAMES", help="GPUs of trt-rtx engines [default: sm86,sm89,sm120].")
@click.option("--workspace", metavar="SIZE", help="Scratch memory of an engine, such as 2G [default: no limit].")
@click.option(
    "--hardware-compatible",
    metavar="LEVEL",
    help="Other GPUs an engine of trt runs on: none, ampere-plus or same-compute-capability [default: none].",
)
@click.option(
    "--engine-flag",
    "engine_flags",
    multiple=True,
    metavar="NAME",
    help="Of engines of trt: refit, strip-plan, version-compatible; repeatable.",
)
@click.option(
    "--provider",
    type=click.Choice(["cpu", "cuda", "tensorrt"]),
    default="cpu",
    show_default=True,
    help="What onnxruntime runs onnx on, with onnxruntime-gpu and an NVIDIA GPU.",
)
@click.option(
    "--max-cpu-ops", metavar="SHARE", help="Fail where more operators than 0%, 2.5%, … run on the CPU all the same."
)
@click.option("--tune", metavar="TRIALS|MINUTES", help="Look for faster kernels of tvm: 500 trials, or 10m.")
@click.option(
    "--tuning-db",
    metavar="FILE",
    help="Tuned kernels for tvm from a file, besides those tuned here; none for neither.",
)
@click.option("--allow-deferred", is_flag=True, help="Exit with 0 although something is deferred to another host.")
@click.option("--quiet", "-q", is_flag=True, help="No progress, only the table.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def run(model: str, **given: Any) -> None:
    """Convert MODEL: a model file, or file.py:factory or package.module:factory.

    Exit code: 0 all passed; 1 something failed; 2 bad input or usage; 3 something deferred, nothing failed.
    """
    from rich.console import Console

    from convert import pipeline
    from convert.console import stdout
    from convert.progress import Progress
    from convert.report.table import print_report

    options = _options(model, given)
    console = Console(stderr=True)
    report = pipeline.run(options, sys.argv[1:], Progress(console, quiet=given["quiet"]))
    print_report(report, stdout(), str(options.out))
    sys.exit(report.exit_code)


def _options(model: str, given: dict[str, Any]) -> Any:
    from convert import config
    from convert.run_options import settle

    context = click.get_current_context()

    def said(name: str) -> bool:
        return context.get_parameter_source(name) is not ParameterSource.DEFAULT

    used = config.fill(model, given, given.pop("config"), said)
    if given["target"] is None:
        target = next(item for item in context.command.params if item.name == "target")
        raise click.MissingParameter(ctx=context, param=target)
    return settle(model, given, used)


@cli.group()
def toolchain() -> None:
    """The environments that converters run in."""


@toolchain.command("list")
def toolchain_list() -> None:
    """Say of every toolchain whether it is there, where, and in which versions."""
    from convert.listing import print_toolchains

    print_toolchains()


@toolchain.command("install")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--force", is_flag=True, help="Make it anew.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def toolchain_install(names: tuple[str, ...], force: bool, debug: bool) -> None:
    """Make the toolchains NAME... in the user's cache folder (CONVERT_CACHE moves it)."""
    from convert.toolchains import install, install_command

    del debug
    for name in names:
        install_command(name)  # a wrong name must not be noticed after the first installation
    for name in names:
        environment = install(name, lambda text: click.echo(text, err=True), force)
        click.echo(f"{name}: ready at {environment.python.parent.parent}")


@toolchain.command("remove")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def toolchain_remove(names: tuple[str, ...]) -> None:
    """Delete the toolchains NAME... from the cache folder."""
    from convert.toolchains import install_command, remove

    for name in names:
        install_command(name)
    for name in names:
        click.echo(f"{name}: {'removed' if remove(name) else 'was not in the cache folder'}")


@cli.command()
def targets() -> None:
    """Say of every target whether it can be made here, in which versions, and what is missing."""
    from convert.listing import print_targets

    print_targets()


@cli.command()
def platforms() -> None:
    """Say of every platform how its artifacts are proven here, and which CPUs code can be made for."""
    from convert.listing import print_platforms

    print_platforms()


cli.add_command(init)


cli.add_command(inspect)


cli.add_command(sensitivity)


cli.add_command(qat)


cli.add_command(tune)


cli.add_command(tuning)


cli.add_command(build_recipe)


cli.add_command(merge)


def main() -> NoReturn:
    """Run the command; every expected error becomes one sentence and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack a sign of the table; that must not end a run
    signal.signal(signal.SIGTERM, _stop)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, _stop)
    try:
        sys.exit(cli.main(standalone_mode=False) or 0)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except click.ClickException as error:
        if not isinstance(error, click.exceptions.NoArgsIsHelpError):  # whose message is the help
            vars(error)["message"] = one_line(error.message)  # it may quote what was typed
        error.show()
        sys.exit(2)
    except ConvertError as error:
        _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        _fail("interrupted; nothing was written", _INTERRUPTED)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS):
            _fail_for(error)
        _drop_output()
        where = error.filename or "standard output or the folder for temporary files (TMPDIR)"
        _fail(f"nothing can be written to {where} ({error.strerror}); free space there", 1)
    except Exception as error:  # a fault of this program: still one line, and a way to see more
        _fail_for(error)


def _drop_output() -> None:
    """Forget what could not be printed, else the interpreter complains about it once more while it ends."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _fail_for(error: Exception) -> NoReturn:
    text = " ".join(str(error).split())
    _fail(f"internal error: {type(error).__name__}: {text} (run again with --debug for the traceback)", 1)


def _fail(text: str, code: int) -> NoReturn:
    if "--debug" in sys.argv:
        import traceback

        traceback.print_exc()
    click.echo(f"convert: {one_line(text)}", err=True)
    sys.exit(code)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt

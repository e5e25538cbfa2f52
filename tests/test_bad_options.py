"""One wrong value for every option of every command: the sentence, the exit code, and no worker."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import convert.cli_init
import convert.inspect_steps
import convert.pipeline
import convert.toolchains
from convert.cli import cli
from convert.errors import ConvertError

ONNX = b"\x08\x08\x12\x04test\x3a\x0d\x0a\x03\x0a\x01x\x12\x01g\x62\x03\x0a\x01y"
WEIGHTS = (64).to_bytes(8, "little") + b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'.ljust(64) + bytes(8)
INPUT = (
    " is not of the form 'name=dtype[sizes]'; write for example 'x=float32[N,3,224,224]', where a word is a dynamic "
    "dimension"
)
DIM = " is not of the form 'NAME=MIN..OPT..MAX'; write for example 'N=1..4..16'"
CONSTANT = " is not of the form 'name=value'; write for example 'steps=4' or 'mode=bilinear'"
NO_FILE = "; give a file made by torch.jit.save, torch.export.save, torch.save or torch.onnx.export, or file.py:factory"
NO_CODE = " is no folder; give the folder that the model's own modules lie in"
NO_USE = " is of the kind onnx, which holds its own code, so --model nets.py:make has no use here; leave it out"
NO_FACTORY = " names no class or function; write file.py:factory or pkg.mod:factory"
NO_CONFIG = "--config {} cannot be read ({}); give a file such as convert.toml"
PLATFORMS = (
    "; choose from linux/amd64, linux/arm64, linux/arm/v7, linux/riscv64, android/arm64 "
    "(several with commas between them)"
)
DEVICES = "; write ssh://user@host, ssh://user@host:port or adb:SERIAL"
TUNE = " cannot be used; write a number of trials from 1 to 1000000, as 500, or minutes up to 10080, as 10m"
DATABASE = "; give one from `convert tuning export`"
TOOLCHAINS = "; choose one of core, onnx2tf, tvm, tvm-tuning, trt-rtx, trt, arm64-emulation"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A working folder with a few files, in which nothing may change, and a command that must not come to its work."""
    (tmp_path / "m.onnx").write_bytes(ONNX)
    (tmp_path / "w.safetensors").write_bytes(WEIGHTS)
    (tmp_path / "nets.py").write_text("def make(): ...\n", encoding="utf-8")
    (tmp_path / "bad.toml").write_text("opset = 12\n", encoding="utf-8")
    (tmp_path / "many.toml").write_text('target = "onnx"\nthreads = 2000\n', encoding="utf-8")
    (tmp_path / "folder").mkdir()
    before = sorted(path.name for path in tmp_path.rglob("*"))

    def never(*found: Any, **_: Any) -> None:
        raise AssertionError(f"it came to its work with {found}")

    monkeypatch.chdir(tmp_path)
    for module, name in (
        (convert.pipeline, "run"),
        (convert.inspect_steps, "look"),
        (convert.cli_init, "_interface"),
        (convert.toolchains, "install"),
        (convert.toolchains, "remove"),
    ):
        monkeypatch.setattr(module, name, never)
    yield
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def said(line: str) -> str:
    """What ``convert LINE`` says; its exit code must be 2."""
    with pytest.raises((click.ClickException, ConvertError)) as caught:
        cli.main(shlex.split(line), prog_name="convert", standalone_mode=False)
    error: Any = caught.value
    assert error.exit_code == 2
    return str(error.format_message() if isinstance(error, click.ClickException) else error)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("'' -t onnx", "MODEL is empty; give a model file, or file.py:factory"),
        ("folder -t onnx", "folder is a folder; give the model file in it"),
        ("a:b:c -t onnx", "a:b:c is neither a file nor a factory; write file.py:factory or pkg.mod:factory"),
        ("m.onnx -t onnx --model nets.py:make", "m.onnx" + NO_USE),
        ("w.safetensors -t onnx --model ''", "--model '' is empty; give file.py:factory or pkg.mod:factory"),
        ("w.safetensors -t onnx --model nets.py", "--model nets.py" + NO_FACTORY),
        ("w.safetensors -t onnx --model nets.py:", "--model nets.py:" + NO_FACTORY),
        ("w.safetensors -t onnx --model make", "--model make" + NO_FACTORY),
        ("m.onnx -t onnx --input ''", "--input ''" + INPUT),
        ("m.onnx -t onnx --dim ''", "--dim ''" + DIM),
        ("m.onnx -t onnx --dim 1N=3", "--dim '1N=3'" + DIM),
        ("m.onnx -t onnx --constant steps", "--constant 'steps'" + CONSTANT),
        ("m.onnx -t onnx --constant 1=2", "--constant '1=2'" + CONSTANT),
        (
            "m.onnx -t onnx --constant 'x={1: 2}'",
            "--constant 'x={1: 2}' is a dict; allowed are int, float, bool, str, None and tuples or lists of these",
        ),
        ("m.onnx -t onnx --constant a=1 --constant a=1", "--constant is given twice for 'a'; give each name once"),
        ("m.onnx -t onnx --code nowhere", "--code nowhere" + NO_CODE),
        ("m.onnx -t onnx --code nets.py", "--code nets.py" + NO_CODE),
        ("m.onnx -t onnx --code ''", "--code ''" + NO_CODE),
        ("m.onnx -t onnx --config nowhere.toml", NO_CONFIG.format("nowhere.toml", "No such file or directory")),
        ("m.onnx -t onnx --config folder", NO_CONFIG.format("folder", "Is a directory")),
        (
            "m.onnx -t onnx --config bad.toml",
            "bad.toml has opset = 12, but it must be a whole number of 13 or more",
        ),
        (
            "m.onnx --config many.toml",
            "--threads 2000 is too many; allowed are 1 to 1024 (from many.toml)",
        ),
        ("m.onnx -t onnx --config ''", "Invalid value for '--config': '' is no path."),
        ("m.onnx -t onnx --samples ''", "--samples '' is empty; give a .npz, a .pt or file.py:function"),
        ("m.onnx -t tvm --tune 0", "--tune '0'" + TUNE),
        ("m.onnx -t tvm --tune 5x", "--tune '5x'" + TUNE),
        ("m.onnx -t tvm --tune=-5", "--tune '-5'" + TUNE),
        ("m.onnx -t tvm --tune nan", "--tune 'nan'" + TUNE),
        (
            "m.onnx -t onnx --tune 500",
            "--tune '500' is about kernels of tvm, and --target is onnx; add tvm, or leave --tune out",
        ),
        ("m.onnx -t tvm --tuning-db nowhere.json", "--tuning-db nowhere.json is no file" + DATABASE),
        (
            "m.onnx -t tvm --tuning-db m.onnx",
            "--tuning-db m.onnx cannot be used: it is not JSON, or was cut off" + DATABASE,
        ),
        ("m.onnx -t onnx --opset 1e1", "Invalid value for '--opset': '1e1' is not a valid integer."),
        ("m.onnx -t onnx --opset -1", "--opset -1 is too old; allowed are 13 to 20 for onnx"),
        (
            "m.onnx -t onnx --opset 99999999999999999999",
            "--opset 99999999999999999999 is newer than target onnx reads; allowed are 13 to 20 for onnx",
        ),
        ("m.onnx -t onnx --out ''", "Invalid value for '--out' / '-o': '' is no path."),
        ("m.onnx -t onnx --timeout soon", "Invalid value for '--timeout': 'soon' is not a valid number of seconds."),
        ("m.onnx -t onnx --timeout inf", "Invalid value for '--timeout': 'inf' is not a finite number of seconds."),
        ("m.onnx -t onnx --timeout -5", "Invalid value for '--timeout': -5.0 is not in the range x>0."),
        ("m.onnx -t onnx --memory ''", "--memory '' is not a size; write for example 8G or 512M"),
        ("m.onnx -t onnx --memory 1e400", "--memory '1e400' is not a size; write for example 8G or 512M"),
        ("m.onnx -t onnx --threads 1.5", "Invalid value for '--threads': '1.5' is not a valid whole number."),
        ("m.onnx -t onnx --threads 1025", "--threads 1025 is too many; allowed are 1 to 1024"),
        ("m.onnx -t onnx --jobs many", "Invalid value for '--jobs' / '-j': 'many' is not a valid whole number."),
        (
            "m.onnx -t onnx --bench-seconds long",
            "Invalid value for '--bench-seconds': 'long' is not a valid number of seconds.",
        ),
        (
            "m.onnx -t onnx --platform linux/arm64,windows/amd64",
            "--platform 'linux/arm64,windows/amd64' names windows/amd64" + PLATFORMS,
        ),
        ("m.onnx -t onnx --platform ''", "--platform '' names nothing" + PLATFORMS),
        (
            "m.onnx -t onnx --platform linux/riscv64 --cpu rpi4",
            "--cpu 'rpi4' is no CPU of the platforms asked for; choose from linux/riscv64: generic",
        ),
        (
            "m.onnx -t onnx --platform linux/arm64 --cpu rpi4 --cpu rpi5",
            "--cpu names rpi4 and rpi5, both for linux/arm64; choose one for each platform",
        ),
        ("m.onnx -t onnx --device pi@garden", "--device 'pi@garden' is no device" + DEVICES),
        ("m.onnx -t onnx --device ssh://-oProxyCommand=x", "--device 'ssh://-oProxyCommand=x' is no device" + DEVICES),
        ("m.onnx -t onnx --allow-deferred=1", "Option '--allow-deferred' does not take a value."),
        ("m.onnx -t onnx --trust-pickle=yes", "Option '--trust-pickle' does not take a value."),
        ("m.onnx --target", "Option '--target' requires an argument."),
    ],
)
def test_run(line: str, message: str) -> None:
    assert said(line) == message


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ("N=3..2..4", "--dim 'N=3..2..4' must rise from MIN over OPT to MAX and start at 1 or more"),
        ("N=1..5..4", "--dim 'N=1..5..4' must rise from MIN over OPT to MAX and start at 1 or more"),
        ("N=0..1", "--dim 'N=0..1' must rise from MIN over OPT to MAX and start at 1 or more"),
        ("N=1 --dim N=1", "--dim is given twice for 'N'; give each name once"),
        ("N=1..4 --dim M=1 --dim N=2", "--dim is given twice for 'N'; give each name once"),
    ],
)
def test_dims_that_contradict_themselves(dims: str, message: str) -> None:
    for command in ("run", "inspect"):
        target = "-t onnx" if command == "run" else ""
        assert said(f"{command} m.onnx {target} --input 'x=float32[N]' --dim {dims}") == message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nowhere.pt", "there is no file nowhere.pt" + NO_FILE),
        ("''", "MODEL is empty; give a model file, or file.py:factory"),
        ("m.onnx --model nets.py:make", "m.onnx" + NO_USE),
        ("w.safetensors --model make", "--model make" + NO_FACTORY),
        ("m.onnx --input x", "--input 'x'" + INPUT),
        ("m.onnx --dim N", "--dim 'N'" + DIM),
        ("m.onnx --samples ''", "--samples '' is empty; give a .npz, a .pt or file.py:function"),
        ("m.onnx --constant x", "--constant 'x'" + CONSTANT),
        ("m.onnx --code nowhere", "--code nowhere" + NO_CODE),
        ("m.onnx --config nowhere.toml", NO_CONFIG.format("nowhere.toml", "No such file or directory")),
        ("m.onnx --timeout nan", "Invalid value for '--timeout': 'nan' is not a finite number of seconds."),
        ("m.onnx --timeout 0", "Invalid value for '--timeout': 0.0 is not in the range x>0."),
        ("m.onnx --json=1", "Option '--json' does not take a value."),
        ("m.onnx -t onnx", "No such option '-t'."),
    ],
)
def test_inspect(line: str, message: str) -> None:
    assert said(f"inspect {line}") == message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nowhere.pt", "there is no file nowhere.pt" + NO_FILE),
        ("m.onnx --model nets.py:make", "m.onnx" + NO_USE),
        ("m.onnx --constant x", "--constant 'x'" + CONSTANT),
        ("m.onnx --code nowhere", "--code nowhere" + NO_CODE),
        ("m.onnx --out ''", "Invalid value for '--out' / '-o': '' is no path."),
        ("m.onnx --out nets.py", "nets.py is there already; write to another file with --out, or over it with --force"),
        (
            "m.onnx --out nets.py/x",
            "nets.py/x cannot be written, since nets.py is no folder; choose another file with --out",
        ),
        ("m.onnx --force=1", "Option '--force' does not take a value."),
    ],
)
def test_init(line: str, message: str) -> None:
    assert said(f"init {line}") == message


@pytest.mark.parametrize("command", ["install", "remove"])
def test_toolchains_are_known_before_the_first_is_touched(command: str) -> None:
    """The commands must not come to their work, although the first name is good."""
    assert said(f"toolchain {command} tvm nope") == "there is no toolchain 'nope'" + TOOLCHAINS
    assert said(f"toolchain {command}") == "Missing argument 'NAME...'."


def test_every_option_has_a_wrong_value_here() -> None:
    """A new option must come with its wrong values: in this file or where its sentences are tested."""
    places = ("bad_options", "cli_errors", "quantize_options", "engine_options", "provider_cli")
    files = [Path(__file__).parent / f"test_{name}.py" for name in places]
    # As a word of a command line, alone or in a list of words.
    text = "\n".join(file.read_text(encoding="utf-8") for file in files).replace('"', " ")
    silent = {"--quiet", "--debug", "--help", "--force", "--json"}
    for command in (cli.commands["run"], cli.commands["inspect"], cli.commands["init"]):
        for option in command.params:
            names = {name for name in option.opts if name.startswith("--")} - silent
            assert all(f"{name} " in text or f"{name}=" in text for name in names), names


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("m.onnx", "m"),
        ("nets.py:make", "make"),
        ("a:b/m.onnx", "m"),
        ("..:x/../m.onnx", "m"),
        ("pkg.mod:Outer.Net", "Outer.Net"),
    ],
)
def test_the_output_folder_is_named_after_the_model(model: str, name: str, tmp_path: Path) -> None:
    """A colon in a path is no factory, and must not lead the output out of ``dist``."""
    from convert.run_options import _name_of

    made = [tmp_path / folder for folder in ("a:b", "..:x")] if "/" in model else []
    for folder in made:
        folder.mkdir()
    there = tmp_path / "a:b" / "m.onnx"
    if made:
        there.write_bytes(ONNX)
    assert _name_of(model) == name
    there.unlink(missing_ok=True)
    for folder in made:
        folder.rmdir()


def test_control_signs_in_a_name_do_not_break_the_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["convert", "no\nsuch\x1b[31m\udcff.pt", "-t", "onnx"])
    with pytest.raises(SystemExit) as ended:
        convert.cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"convert: there is no file no\\nsuch\\x1b[31m\\udcff.pt{NO_FILE}\n"

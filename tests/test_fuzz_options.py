"""Any words on the command line: they run something, or are refused in one sentence. No worker is started."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import click
import pytest
from helpers.fuzz import fuzz, nothing_runs, require_sentence, words
from hypothesis import given
from hypothesis import strategies as st

import convert.cli_init
import convert.inspect_steps
import convert.pipeline
import convert.toolchains
from convert.cli import cli
from convert.constants import format_constant, parse_constants
from convert.errors import InputError
from convert.options import MOST_THREADS, Options
from convert.specs import format_input, parse_dim, parse_input

GOOD = {
    "MODEL": ["m.onnx", "nets.py:make", "w.pt"],
    "--target": ["onnx", "onnx,tvm", "trt"],
    "-t": ["onnx"],
    "--precision": ["float32", "float16,float32"],
    "--model": ["nets.py:make"],
    "--input": ["x=float32[N,3]", "ids=int64[N]{0..9}"],
    "--dim": ["N=1..4..16"],
    "--samples": ["s.npz", "nets.py:make"],
    "--constant": ["steps=4", "mode=a"],
    "--code": ["."],
    "--config": ["good.toml", "bad.toml"],
    "--opset": ["13", "18"],
    "--out": ["out"],
    "--timeout": ["1", "0.5"],
    "--memory": ["8G"],
    "--threads": ["1"],
    "--jobs": ["2"],
    "--bench-seconds": ["0"],
    "--provider": ["cpu", "cuda"],
    "--max-cpu-ops": ["0%", "2.5%"],
}
FLAGS = ["--trust-pickle", "--allow-deferred", "--quiet", "--debug", "--force", "--json", "--help", "--version", "-q"]
COMMANDS = ["run", "init", "inspect", "targets", "toolchain list", "toolchain install", "toolchain remove", "", ""]


class Ran(Exception):
    """The words were understood, up to where workers would start."""


@pytest.fixture(scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A working folder with a few files, and a command that stops where workers would start."""
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "m.onnx").write_bytes(b"\x08\x08\x3a\x04\x62\x02\x0a\x00")
    (folder / "nets.py").write_text("def make(): ...\n", encoding="utf-8")
    (folder / "w.pt").write_bytes(b"\x10" + bytes(7) + b'{"a":1}         ')
    (folder / "good.toml").write_text('target = "onnx"\nthreads = 2\n', encoding="utf-8")
    (folder / "bad.toml").write_text("target = 1\n", encoding="utf-8")

    def stop(*found: Any, **_: Any) -> NoReturn:
        raise Ran(*found)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("CONVERT_CACHE", str(folder / "cache"))
        patch.setattr(convert.pipeline, "run", stop)
        patch.setattr(convert.inspect_steps, "look", stop)
        patch.setattr(convert.cli_init, "_interface", stop)
        patch.setattr(convert.toolchains, "install", stop)
        patch.setattr(sys, "stdout", sys.stderr)
        yield
    assert not (folder / "dist").exists()


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    line = draw(st.sampled_from(COMMANDS)).split()
    wild = words()
    for _ in range(draw(st.integers(0, 6))):
        name = draw(st.sampled_from(["MODEL", "MODEL", "--target", *GOOD, "FLAG", "WILD"]))
        if name in GOOD:
            usual = st.sampled_from(GOOD[name])
            value = draw(st.one_of(usual, usual, wild))
            joined = name.startswith("--") and draw(st.booleans())
            line += [value] if name == "MODEL" else ([f"{name}={value}"] if joined else [name, value])
        else:
            line.append(draw(st.sampled_from(FLAGS) if name == "FLAG" else wild))
    return line


def require_valid(options: Options) -> None:
    """What a run is started with is within all bounds, and can be written and read back."""
    assert all(parse_input(format_input(spec)) == spec for spec in options.inputs)
    assert all(parse_dim(f"{dim.name}={dim.min}..{dim.opt}..{dim.max}") == dim for dim in options.dims)
    constants = parse_constants(options.ref.constants)
    assert repr(parse_constants(format_constant(*item) for item in constants.items())) == repr(constants)
    assert set(options.targets) <= {"onnx", "tflite", "tvm", "trt", "trt-rtx"}
    assert options.targets
    assert set(options.precisions) <= {"float32", "float16"}
    assert options.precisions
    assert 0 < options.timeout < float("inf")
    assert 0 <= options.bench_seconds < float("inf")
    assert 1 <= options.threads <= MOST_THREADS
    assert options.jobs >= 1
    assert options.memory is None or options.memory >= 1
    assert options.opset is None or options.opset >= 13
    assert options.samples is None or Path(options.samples).is_absolute()
    assert Path(options.ref.path).is_absolute()
    assert "\0" not in str(options.out)


@pytest.mark.usefixtures("_folder")
@fuzz(900)
@given(lines())
def test_any_words_run_something_or_are_refused(line: list[str]) -> None:
    try:
        with nothing_runs(("pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen")):
            cli.main(line, prog_name="convert", standalone_mode=False)
    except click.ClickException as error:
        require_sentence(error)
    except InputError as error:
        require_sentence(error)
    except Ran as found:
        if found.args and isinstance(found.args[0], Options):
            require_valid(found.args[0])
    except click.exceptions.Exit as end:
        assert end.exit_code == 0  # noqa: PT017


@pytest.mark.usefixtures("_folder")
def test_the_lines_above_come_to_a_run() -> None:
    with pytest.raises(Ran) as found:
        cli.main(["m.onnx", "-t", "onnx"], prog_name="convert", standalone_mode=False)
    require_valid(found.value.args[0])

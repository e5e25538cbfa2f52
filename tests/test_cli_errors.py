"""What the command says when it is used wrongly: one sentence that helps, exit code 2, and nothing written."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.command import Done, listing, run
from helpers.full_run import DIGITS

import convert.cli

NETS = Path(__file__).parent / "helpers" / "wrong_nets.py"


class Evil:
    """Unpickling it makes a file."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("unpickled",)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A working folder with models and other files."""
    folder = tmp_path / "cwd"
    (folder / "theirs").mkdir(parents=True)
    (folder / "theirs" / "thesis.tex").write_text("years of work", encoding="utf-8")
    shutil.copy(NETS, folder / "nets.py")
    (folder / "empty.pt").touch()
    (folder / "evil.pkl").write_bytes(pickle.dumps(Evil()))
    (folder / "text.pt").write_text("hello", encoding="utf-8")
    shutil.copy(DIGITS / "digits.pt2", folder / "digits.pt2")
    shutil.copy(DIGITS / "weights.pt", folder / "weights.pt")
    return folder


def refused(place: Path, line: str, *more: str) -> Done:
    """Run ``convert LINE MORE``, which must end with exit code 2, an empty standard output and nothing written."""
    cache = place.parent / "cache"
    before = listing(place)
    # Where it must fail before any worker starts, an interpreter that does not exist proves that it did.
    variables: dict[str, str | Path] = {"CONVERT_CACHE": cache, "CONVERT_PYTHON_CORE": "/nowhere/python"}
    done = run(*line.split(), *more, cwd=place, variables=variables)
    assert (done.code, done.stdout) == (2, ""), done.stderr
    assert listing(place) == before
    return done


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "digits.pt2 -t nope",
            "--target 'nope' names nope; choose from onnx, tflite, tvm, trt, trt-rtx (several with commas between "
            "them)",
        ),
        (
            "digits.pt2 -t onnx,coreml,x",
            "--target 'onnx,coreml,x' names coreml; choose from onnx, tflite, tvm, trt, trt-rtx (several with commas "
            "between them)",
        ),
        (
            "digits.pt2 -t ,",
            "--target ',' names nothing; choose from onnx, tflite, tvm, trt, trt-rtx (several with commas between "
            "them)",
        ),
        (
            "digits.pt2 -t onnx -p int7",
            "--precision 'int7' names int7; choose from float32, float16, int8-dynamic, int8, int16x8 (several with "
            "commas between them)",
        ),
        (
            "digits.pt2 -t onnx,tvm -p float16",
            "target tvm offers none of the precisions float16; it offers float32",
        ),
        (
            "digits.pt2 -t onnx --input x=float",
            "--input 'x=float' is not of the form 'name=dtype[sizes]'; write for example 'x=float32[N,3,224,224]', "
            "where a word is a dynamic dimension",
        ),
        (
            "digits.pt2 -t onnx --input x=half[4]",
            "--input 'x=half[4]' has the dtype 'half'; allowed are float16, float32, float64, int8, uint8, int16, "
            "int32, int64, bool",
        ),
        (
            "digits.pt2 -t onnx --input x=float32[4,0]",
            "--input 'x=float32[4,0]' has the size '0'; a size is a positive number or a word that names a dynamic "
            "dimension",
        ),
        (
            "digits.pt2 -t onnx --input x=int64[4]{9..0}",
            "--input 'x=int64[4]{9..0}' has an empty range 9..0; write the smaller number first",
        ),
        (
            "digits.pt2 -t onnx --input x=float32[4] --input x=float32[4]",
            "--input is given twice for 'x'; give each name once",
        ),
        (
            "digits.pt2 -t onnx --dim N",
            "--dim 'N' is not of the form 'NAME=MIN..OPT..MAX'; write for example 'N=1..4..16'",
        ),
        (
            "digits.pt2 -t onnx --dim N=4..1",
            "--dim 'N=4..1' must rise from MIN over OPT to MAX and start at 1 or more",
        ),
        ("digits.pt2 -t onnx --dim N=1 --dim N=2", "--dim is given twice for 'N'; give each name once"),
        ("digits.pt2 -t onnx --memory lots", "--memory 'lots' is not a size; write for example 8G or 512M"),
        ("digits.pt2 -t onnx --memory 0", "--memory '0' is not a size; write for example 8G or 512M"),
        ("digits.pt2 -t onnx --opset 12", "--opset 12 is too old; allowed are 13 to 20 for onnx"),
        (
            "digits.pt2 -t onnx,tvm --opset 19",
            "--opset 19 is newer than target tvm reads; allowed are 13 to 18 for onnx, tvm",
        ),
        (
            "missing.pt -t onnx",
            "there is no file missing.pt; give a file made by torch.jit.save, torch.export.save, torch.save or "
            "torch.onnx.export, or file.py:factory",
        ),
        (
            "missing.py:make -t onnx",
            "there is no file missing.py to take make from; check the path before the colon",
        ),
        ("empty.pt -t onnx", "empty.pt is empty; save or download it again"),
        ("theirs -t onnx", "theirs is a folder; give the model file in it"),
        (
            "nets.py -t onnx",
            "nets.py is Python code; add the class or function that makes the model (it has make, Dropping, Counting, "
            "Empty, broken), as in nets.py:NAME",
        ),
        (
            "weights.pt -t onnx",
            "weights.pt holds weights without the code of their module; add --model file.py:factory (or "
            "pkg.mod:factory) with the class or function that makes it",
        ),
        (
            "weights.pt -t onnx --model missing.py:make",
            "there is no file missing.py to take make from; check the path before the colon",
        ),
        (
            "digits.pt2 -t onnx --model nets.py:make",
            "digits.pt2 is of the kind exported-program, which holds its own code, so --model nets.py:make has no use "
            "here; leave it out",
        ),
        (
            "evil.pkl -t onnx",
            "evil.pkl is a pickle that runs code when it is loaded (it wants posix.mkdir); if you trust where it comes "
            "from, add --trust-pickle, else save its state dict or a torch.export program instead",
        ),
        (
            "digits.pt2 -t onnx --out theirs",
            "--out PLACE/theirs holds files that no run of convert made (there is no report.json); choose an empty "
            "or new folder",
        ),
        ("digits.pt2 -t onnx --out nets.py", "--out PLACE/nets.py is a file; choose a folder"),
        (
            "toolchain install nope",
            "there is no toolchain 'nope'; choose one of core, onnx2tf, tvm, tvm-tuning, trt-rtx, trt, arm64-emulation",
        ),
        (
            "toolchain remove nope",
            "there is no toolchain 'nope'; choose one of core, onnx2tf, tvm, tvm-tuning, trt-rtx, trt, arm64-emulation",
        ),
    ],
)
def test_a_wrong_word_is_answered_in_one_sentence(place: Path, line: str, message: str) -> None:
    assert refused(place, line).stderr == f"convert: {message.replace('PLACE', str(place))}\n"


def test_a_file_that_is_no_model(place: Path) -> None:
    done = refused(place, "text.pt -t onnx")
    assert done.stderr.startswith("convert: text.pt is ")
    assert done.stderr.count("\n") == 1


def test_a_folder_below_a_file(place: Path) -> None:
    done = refused(place, "digits.pt2 -t onnx -q --out nets.py/out")
    assert done.stderr.startswith("convert: ")
    assert f"{place}/nets.py" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "Missing argument 'MODEL'."),
        ("digits.pt2", "Missing option '--target' / '-t'."),
        ("digits.pt2 more -t onnx", "Got unexpected extra argument (more)"),
        ("digits.pt2 -t onnx --nonsense", "No such option"),
        ("digits.pt2 -t onnx --opset new", "Invalid value for '--opset': 'new' is not a valid integer"),
        ("digits.pt2 -t onnx --jobs 0", "Invalid value for '--jobs' / '-j': 0 is not in the range x>=1"),
        ("digits.pt2 -t onnx --threads 0", "Invalid value for '--threads': 0 is not in the range x>=1"),
        ("digits.pt2 -t onnx --timeout 0", "Invalid value for '--timeout': 0.0 is not in the range x>0"),
        ("digits.pt2 -t onnx --bench-seconds -1", "Invalid value for '--bench-seconds': -1.0 is not in the range x>=0"),
        ("digits.pt2 -t onnx --timeout nan", "Invalid value for '--timeout'"),
        ("digits.pt2 -t onnx --bench-seconds nan", "Invalid value for '--bench-seconds'"),
        ("digits.pt2 -t onnx --bench-seconds inf", "Invalid value for '--bench-seconds'"),
        ("toolchain nope", "No such command 'nope'"),
        ("toolchain install", "Missing argument 'NAME...'"),
    ],
)
def test_a_wrong_option_is_answered_with_the_usage(place: Path, line: str, message: str) -> None:
    done = refused(place, line if line else "run")
    assert done.stderr.startswith("Usage: ")
    assert done.last_line.startswith(f"Error: {message}"), done.stderr
    assert "Traceback" not in done.stderr


def test_no_words_at_all_show_the_help(place: Path) -> None:
    done = refused(place, "")
    assert done.stderr.startswith("Usage: ")
    assert "toolchain" in done.stderr


def test_a_core_toolchain_that_is_no_program(place: Path) -> None:
    assert refused(place, "digits.pt2 -t onnx -q").stderr == (
        "convert: CONVERT_PYTHON_CORE is '/nowhere/python', which is no program; set it to the path of a Python "
        "interpreter\n"
    )


def test_a_traceback_is_shown_on_demand(place: Path) -> None:
    done = refused(place, "empty.pt -t onnx --debug")
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.last_line == "convert: empty.pt is empty; save or download it again"


@pytest.fixture
def _signals() -> Iterator[None]:
    """The command changes what signals do; put it back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, action in before.items():
        signal.signal(number, action)


@pytest.mark.usefixtures("_signals")
@pytest.mark.parametrize("debug", [False, True])
def test_a_fault_of_the_program_itself(monkeypatch: pytest.MonkeyPatch, debug: bool) -> None:
    def fail(**_: object) -> None:
        raise ZeroDivisionError("no\nway")

    shown = io.StringIO()
    monkeypatch.setattr(convert.cli.cli, "main", fail)
    monkeypatch.setattr(sys, "argv", ["convert", "x", *(["--debug"] if debug else [])])
    monkeypatch.setattr(sys, "stderr", shown)
    with pytest.raises(SystemExit) as ended:
        convert.cli.main()
    assert ended.value.code == 1
    assert ("Traceback" in shown.getvalue()) is debug
    last = "convert: internal error: ZeroDivisionError: no way (run again with --debug for the traceback)"
    assert shown.getvalue().splitlines()[-1] == last

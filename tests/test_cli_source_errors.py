"""What the command says of a source that cannot be proven, and of words that do not fit the source."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.command import Done, listing, run

pytestmark = pytest.mark.toolkit

NETS = Path(__file__).parent / "helpers" / "wrong_nets.py"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A working folder with models and other files."""
    folder = tmp_path / "cwd"
    (folder / "theirs").mkdir(parents=True)
    shutil.copy(NETS, folder / "nets.py")
    (folder / "empty.pt").touch()
    return folder


def refused_by_source(place: Path, line: str, *more: str) -> Done:
    before = listing(place)
    done = run(*line.split(), *more, "-q", cwd=place)
    assert (done.code, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert listing(place) == before
    return done


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "nets.py:Dropping",
            "the inputs of nets.py are not known; give them with --input 'x=float32[N,3,224,224]' (repeatable) or with "
            "--samples FILE (no layer of the model tells what it takes, so nothing was tried)",
        ),
        (
            "nets.py:make --input x=float32[N,7]",
            "the model failed on inputs x=float32[4, 7]: RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x7 "
            "and 8x4); check the inputs, now --input 'x=float32[N,7]', and --dim",
        ),
        (
            "nets.py:Dropping --input x=float32[N,8]",
            "the source gives another output each time it runs on the same inputs (it draws random numbers with "
            "aten.dropout), so no artifact can be proven; make it deterministic",
        ),
        (
            "nets.py:Counting --input x=float32[N,8]",
            "the source gives another output when it is called again, since it depends on state that it updates in "
            "forward (buffer calls), and an artifact keeps no state between calls; make that state an input and an "
            "output",
        ),
        (
            "nets.py:Empty --input x=float32[N,8]",
            "the model returns no tensor; check the inputs, now --input 'x=float32[N,8]', and --dim",
        ),
        (
            "nets.py:broken --input x=float32[N,8]",
            "broken of PLACE/nets.py failed when called without arguments: ValueError: no weights here",
        ),
        (
            "nets.py:number --input x=float32[N,8]",
            "number of PLACE/nets.py returned a int; it must return a torch.nn.Module",
        ),
    ],
)
def test_a_source_that_cannot_be_proven(place: Path, line: str, message: str) -> None:
    done = refused_by_source(place, f"{line} -t onnx")
    assert done.stderr == f"convert: {message.replace('PLACE', str(place))}\n"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--dim M=1..2..3", "--dim M names no dynamic dimension of the inputs; these are N"),
        ("--input q=float32[N,8]", "the model's inputs are x, not q; use these names"),
        (
            "--input x=float32[N,T]",
            "the dynamic dimension T has no range; say the smallest, usual and largest size with --dim "
            "'T=MIN..OPT..MAX'",
        ),
        ("--samples names.npz", "the samples have y, but the inputs are x; use these names"),
        (
            "--samples shape.npz",
            "the sample of x is [4, 9], but float32[N,8] with N=1..16 is wanted; change the samples, --input or --dim",
        ),
        ("--samples dtype.npz", "the sample of x is int64, but float32 is wanted; change one of them"),
        (
            "--samples empty.pt",
            "PLACE/empty.pt holds no samples (its first bytes are b''); give a .npz, a .pt or file.py:function",
        ),
        ("--samples theirs", "PLACE/theirs is a folder; give a .npz, a .pt or file.py:function with samples"),
    ],
)
def test_words_that_do_not_fit_the_source(place: Path, small_onnx: Path, more: str, message: str) -> None:
    np.savez(place / "names.npz", y=np.zeros((4, 8), np.float32))
    np.savez(place / "shape.npz", x=np.zeros((4, 9), np.float32))
    np.savez(place / "dtype.npz", x=np.zeros((4, 8), np.int64))
    done = refused_by_source(place, f"{small_onnx} -t onnx {more}")
    assert done.stderr == f"convert: {message.replace('PLACE', str(place))}\n"


def test_samples_that_are_not_there(place: Path, small_onnx: Path) -> None:
    done = refused_by_source(place, f"{small_onnx} -t onnx --samples missing.npz")
    assert done.stderr.startswith(f"convert: there is no file {place}/missing.npz; ")
    assert "give a .npz, a .pt or file.py:function" in done.stderr  # and not how to make a model file


def test_the_log_of_the_worker_is_shown_on_demand(place: Path) -> None:
    before = listing(place)
    done = run("nets.py:broken", "-t", "onnx", "--input", "x=float32[N,8]", "--debug", cwd=place)
    assert done.code == 2
    line = NETS.read_text(encoding="utf-8").splitlines().index('    raise ValueError("no weights here")') + 1
    assert "\nlog of the worker:\n" in done.stderr
    assert f'File "{place}/nets.py", line {line}, in broken' in done.stderr
    assert done.last_line.endswith("failed when called without arguments: ValueError: no weights here")
    assert listing(place) == before

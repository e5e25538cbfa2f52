"""``convert qat``, and what becomes of a prepared module that is given to the Python interface."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.command import ROOT, run
from helpers.qat_nets import SHAPE, Plain, learned, trained_like

import convert.qat
from convert.api_live import forward_names, save_live
from convert.errors import InputError

DIGITS = str(ROOT / "models" / "digits" / "digits.pt2")
TRAIN = """
from pathlib import Path

import torch


def train(module, epoch):
    with Path(__file__).with_name("epochs.txt").open("a") as stream:
        stream.write(f"{epoch} {module.training}\\n")
    module(torch.rand(4, 1, 8, 8) * 2 - 1).sum().backward()
    return "fine"


def broken(module, epoch):
    raise ValueError("no data")


def idle(module, epoch):
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(TRAIN)
    return tmp_path


def test_a_model_is_trained_and_saved_with_its_ranges(folder: Path) -> None:
    words = ["qat", DIGITS, "--train", f"{folder}/mine.py:train", "--epochs", "2", "--out", str(folder / "out.pt2")]
    done = run(*words, cwd=folder)
    assert done.code == 0, done.stderr
    assert "epoch 2: fine" in done.stderr
    assert f"next: convert {folder / 'out.pt2'} --target tflite --precision float32,int8" in done.stdout
    assert (folder / "epochs.txt").read_text().split() == ["0", "True", "1", "True"]
    ranges = convert.qat.read_ranges(folder / "out.pt2")
    assert ranges is not None
    low = ranges["points"]["q000_image"]["low"]
    assert -1 <= low < -0.9


@pytest.mark.parametrize(
    ("function", "code", "message"),
    [
        ("broken", 1, "training failed: broken failed in epoch 1: ValueError: no data"),
        ("idle", 2, "the ranges were never learned"),
    ],
)
def test_what_goes_wrong_in_training_is_one_sentence_and_leaves_no_file(
    folder: Path, function: str, code: int, message: str
) -> None:
    words = ["qat", DIGITS, "--train", f"{folder}/mine.py:{function}", "--out", str(folder / "out.pt2"), "--quiet"]
    done = run(*words, cwd=folder)
    assert (done.code, done.stderr.count("\n")) == (code, 1)
    assert message in done.stderr
    assert [path.name for path in folder.iterdir() if "out" in path.name] == []


def test_a_prepared_module_goes_to_the_workers_as_its_program(tmp_path: Path) -> None:
    qat = learned(trained_like(Plain))
    assert forward_names(qat) == ("x",)
    saved = save_live(qat, tmp_path)
    assert (saved.name, saved.options) == ("QatModule", {})
    assert convert.qat.read_ranges(saved.path) is not None


def test_a_prepared_module_without_ranges_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the ranges were never learned"):
        save_live(convert.qat.prepare(trained_like(Plain), torch.zeros(SHAPE)), tmp_path)


@pytest.mark.toolkit
def test_draws_lie_within_what_training_has_seen(tmp_path: Path) -> None:
    """Integers stand for nothing beyond, so that standard normal draws would prove nothing."""
    qat = convert.qat.prepare(trained_like(Plain), torch.zeros(SHAPE))
    qat(100 + 20 * torch.rand(16, *SHAPE[1:]))
    convert.qat.save(qat.eval(), tmp_path / "model.pt2")
    words = ("-t", "onnx", "-p", "float32", "--bench-seconds", "0", "-q", "--out", tmp_path / "out")
    assert run(tmp_path / "model.pt2", *words, cwd=tmp_path).code == 0
    with np.load(tmp_path / "out" / "golden" / "opt-draw0.npz") as case:
        drawn = case["in:x"]
    ranges = convert.qat.read_ranges(tmp_path / "model.pt2")
    assert ranges is not None
    (name,) = ranges["inputs"]
    low, high = (ranges["points"][name][end] for end in ("low", "high"))
    assert low == 0
    assert drawn.mean() == pytest.approx(high / 2, rel=0.05)
    assert drawn.std() == pytest.approx(high / 8, rel=0.1)

"""Integer artifacts through the whole command: data, gates, metric, rescue, training; on the real toolkits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.command import run
from helpers.full_run import DIGITS

import convert
from convert.records import Outcome, Report, Status
from convert.serial import read_json
from convert.targets.onnx_quant import has_vnni

pytestmark = pytest.mark.toolkit

FILES = """
from pathlib import Path
import numpy as np
import torch

HERE = Path(__file__).parent


def data():
    images, labels = np.load(HERE / "images.npy"), np.load(HERE / "labels.npy")
    yield from ((torch.from_numpy(image), int(label)) for image, label in zip(images[:48], labels[:48]))


def accuracy(predictions, data):
    labels = np.concatenate([label for _, label in data])
    assert len(labels) == sum(len(feeds["image"]) for feeds, _ in data)
    return (predictions["output"].argmax(1) == labels).mean()


CALLS = []


def falling(predictions, data):
    CALLS.append(predictions["y"].shape == (20, 4))
    return 1 - sum(CALLS) / 10


class Outlier(torch.nn.Module):
    '''One channel of the second layer is 3000 times the others, and the third takes that back.'''

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        sizes = ((8, 16), (16, 16), (16, 16), (16, 4))
        self.layers = torch.nn.ModuleList(torch.nn.Linear(*size) for size in sizes)
        with torch.no_grad():
            for layer in self.layers:
                layer.weight.normal_(0, layer.in_features ** -0.5)
                layer.bias.normal_(0, 0.1)
            self.layers[1].weight[0] *= 3000
            self.layers[2].weight[:, 0] /= 3000

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)
"""
SIZES = ("--input", "x=float32[N,8]", "--dim", "N=1..8..8", "--bench-seconds", "0", "-q")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the shipped digits, in order of nothing, and code of the user's."""
    folder = tmp_path_factory.mktemp("quantize")
    (folder / "mine.py").write_text(FILES)
    images, labels = np.load(DIGITS / "samples.npz")["image"], np.load(DIGITS / "labels.npz")["label"]
    np.save(folder / "images.npy", images)
    np.save(folder / "labels.npy", labels)
    np.savez(folder / "held.npz", image=images[48:99], label=labels[48:99])
    return folder


def outcomes(folder: Path) -> dict[tuple[str, str], Outcome]:
    return {(one.target, one.precision): one for one in read_json(Report, folder / "report.json").artifacts}


def test_digits_are_measured_on_held_out_data(place: Path) -> None:
    words = ("--calibration", "mine.py:data", "--evaluation", "held.npz", "--metric", "mine.py:accuracy")
    done = run(
        DIGITS / "digits.pt2", "-t", "tflite,onnx", "-p", "int8-dynamic,int8", *words, "--max-drop", "0.005",
        "--require-full-integer", "--bench-seconds", "0", "--out", "out", cwd=place,
    )  # fmt: skip
    assert done.code == 0, done.stderr
    found = outcomes(place / "out")
    assert len(found) == 4
    for one in found.values():
        (quality,) = one.quality
        assert quality.samples == 51
        assert quality.agreement is not None
        assert quality.agreement >= 0.98
        assert quality.sqnr_db > 22
        assert one.score is not None
        assert (one.score.samples, one.score.passed) == (51, True)
        assert one.score.source - 0.005 <= one.score.artifact <= 1
    for target in ("tflite", "onnx"):
        operators = found[target, "int8"].operators
        assert operators is not None
        assert operators.floating == {}
        size = {precision: sum(file.size for file in found[target, precision].files) for _, precision in found}
        assert size["int8"] < 75_000
    assert "quality of output on 51 samples: SQNR" in done.stdout
    assert "within --max-drop 0.005" in (place / "out" / "report.md").read_text()


@pytest.mark.parametrize(
    ("words", "stage", "said"),
    [
        (("--min-sqnr", "70"), "check", "and 70 dB are wanted"),
        (("--metric", "mine.py:falling", "--max-drop", "0.05"), "quality", "the metric fell from 0.9 to 0.8, by more"),
        (("--metric", "mine.py:data"), "quality", "the quality could not be measured: --metric "),
    ],
)
def test_a_gate_that_is_missed_fails(
    place: Path, small_onnx: Path, tmp_path: Path, words: tuple[str, ...], stage: str, said: str
) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(1).normal(size=(20, 8)).astype(np.float32))
    more = ("--evaluation", tmp_path / "x.npy", "--bench-seconds", "0", "--out", tmp_path / "out")
    done = run(small_onnx, "-t", "onnx", "-p", "int8-dynamic", *words, *more, cwd=place)
    assert done.code == 1
    one = outcomes(tmp_path / "out")["onnx", "int8-dynamic"]
    assert (one.status, one.stage) == (Status.FAILED, stage)
    assert said in one.reason
    assert not (tmp_path / "out" / "onnx" / "int8-dynamic").exists()


@pytest.mark.parametrize("target", ["onnx", "tflite"])
def test_a_network_with_an_outlier_layer_is_rescued(place: Path, tmp_path: Path, target: str) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(5).normal(size=(80, 8)).astype(np.float32))
    words = ("-t", target, "-p", "int8", *SIZES, "--calibration", tmp_path / "x.npy", "--min-sqnr", "20")
    out = tmp_path / "out"
    done = run("mine.py:Outlier", *words, "--auto-mixed", "--out", out, cwd=place)
    assert done.code == 0, done.stderr
    one = outcomes(out)[target, "int8"]
    assert one.mixed is not None
    assert 1 <= len(one.mixed.kept) <= 2
    curve = dict(one.mixed.curve)
    assert curve[0] < 20 <= curve[len(one.mixed.kept)]
    assert one.operators is not None
    assert one.operators.integer
    assert json.loads((out / target / "int8" / "manifest.json").read_text())["precision"] == "int8"


def test_without_data_the_precisions_that_need_none_are_made(small_onnx: Path, tmp_path: Path) -> None:
    words = (small_onnx, "-t", "onnx", "-p", "int8-dynamic,int8", "--bench-seconds", "0", "--out", tmp_path / "out")
    assert run(*words, cwd=tmp_path).code == 1
    found = outcomes(tmp_path / "out")
    assert found["onnx", "int8-dynamic"].status is Status.PASSED
    assert found["onnx", "int8"].reason == (
        "int8 needs the ranges of activations, and there is no calibration data; give real inputs with --calibration, "
        "or choose int8-dynamic, which needs none"
    )
    done = run(*words, "--calibration", "random", "--min-sqnr", "0", cwd=tmp_path)
    assert done.code == 0, done.stderr
    notes = read_json(Report, tmp_path / "out" / "report.json").golden.notes
    assert "the calibration data are random, so that ranges and accuracy mean nothing" in notes


def test_data_of_a_script_calibrate(place: Path, tmp_path: Path) -> None:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from convert.models.digits.net import digits

    images, labels = torch.from_numpy(np.load(place / "images.npy")), torch.from_numpy(np.load(place / "labels.npy"))
    more: dict[str, Any] = {"inputs": "image=float32[N,1,8,8]", "bench_seconds": 0, "progress": False}
    report = convert.convert(
        digits(),
        targets="onnx",
        precisions="int8",
        calibration=TensorDataset(images[:40], labels[:40]),
        evaluation=DataLoader(TensorDataset(images[40:], labels[40:]), batch_size=7),
        metric=f"{place / 'mine.py'}:accuracy",
        max_drop=0.02,
        out=tmp_path / "out",
        **more,
    )
    (one,) = report.artifacts
    assert one.status is Status.PASSED, one.reason
    assert one.score is not None
    assert one.score.samples == one.quality[0].samples == 60
    assert "ranges measured on" in " ".join(one.notes) or one.quality[0].sqnr_db > 22


def test_what_was_trained_needs_no_data(place: Path, tmp_path: Path) -> None:
    import torch

    import convert.qat

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, stride=2), torch.nn.BatchNorm2d(8), torch.nn.ReLU6(), torch.nn.Flatten(),
        torch.nn.Linear(72, 10),
    ).eval()  # fmt: skip
    images = torch.from_numpy(np.load(place / "images.npy"))
    module = convert.qat.prepare(net, (images[:8],))
    for start in range(0, 96, 8):
        module.train()(images[start : start + 8])
    convert.qat.save(module.eval(), tmp_path / "trained.pt2")
    words = ("-t", "tflite,onnx", "-p", "int8", "--require-full-integer", "--evaluation", place / "images.npy")
    done = run(tmp_path / "trained.pt2", *words, "--bench-seconds", "0", "--out", tmp_path / "out", cwd=tmp_path)
    assert done.code == 0, done.stderr + done.stdout
    for (target, _), one in outcomes(tmp_path / "out").items():
        assert one.operators is not None
        assert one.operators.floating == {}
        # What was trained has 8 bits, which overflow a little in onnxruntime on a CPU without VNNI.
        assert one.quality[0].sqnr_db > (25 if target == "tflite" or has_vnni() else 15)
        assert "learned" in " ".join(one.notes)

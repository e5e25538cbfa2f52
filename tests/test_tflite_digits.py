"""What integers cost the digits classifier: accuracy on labelled samples, noise, size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.full_run import DIGITS, FullRun

from convert.records import Artifact, Quantization
from convert.targets.base import BuildRequest
from convert.targets.noise import noise
from convert.targets.tflite import TFLite

pytestmark = [pytest.mark.toolkit, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
BATCH = 8


def load(name: str, key: str) -> Any:
    with np.load(DIGITS / name) as data:
        return data[key]


class Half:
    """Every other sample, for the ranges; none of the others is ever seen."""

    key = "half"
    random = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        images = load("samples.npz", "image")[::2]
        for start in range(0, len(images) - BATCH + 1, BATCH):
            yield {"image": images[start : start + BATCH]}


@dataclass(frozen=True)
class Figures:
    """Of one artifact on all samples."""

    artifact: Artifact
    size: int
    right: int
    agreeing: int
    noise: float


def logits(artifact: Artifact, folder: Path) -> Any:
    session = TFLite().open(artifact, folder, 1)
    images = load("samples.npz", "image")
    output = artifact.io[-1].source
    return np.concatenate([session.run({"image": images[i : i + 4]})[output].copy() for i in range(0, 100, 4)])


def make(run: FullRun, place: Path, precision: str, **asked: Any) -> Figures:
    """Quantize the float32 artifact of ``run`` and compare."""
    base, folder = run.artifact("tflite", "float32"), run.out / "tflite" / "float32"
    for name in ("made", "scratch"):
        (place / name).mkdir()
    artifact = TFLite().build(
        BuildRequest(
            target="tflite",
            precision=precision,
            route="ai-edge-quantizer",
            golden=run.report.golden,
            golden_folder=run.out / "golden",
            folder=place / "made",
            scratch=place / "scratch",
            base=base,
            base_folder=folder,
            calibration=Half(),
            quantization=Quantization(**asked),
        )
    )
    wanted, got = logits(base, folder), logits(artifact, place / "made")
    return Figures(
        artifact,
        (place / "made" / artifact.files[0]).stat().st_size,
        int((got.argmax(1) == load("labels.npz", "label")).sum()),
        int((got.argmax(1) == wanted.argmax(1)).sum()),
        noise([{"y": got}], [{"y": wanted}]),
    )


@pytest.mark.parametrize(
    ("precision", "asked", "most_noise", "largest"),
    [
        ("int8-dynamic", {}, 10 ** (-33 / 20), 50_000),
        ("int8", {"require_full_integer": True}, 10 ** (-29 / 20), 60_000),
        ("int8", {"require_full_integer": True, "io_type": "int8"}, 10 ** (-29 / 20), 60_000),
        ("int8", {"rule": "percentile"}, 10 ** (-28 / 20), 60_000),
        ("int8", {"rule": "mse"}, 10 ** (-28 / 20), 60_000),
        ("int16x8", {"require_full_integer": True}, 10 ** (-35 / 20), 62_000),
    ],
)
def test_accuracy_is_kept(
    digits_run: FullRun, tmp_path: Path, precision: str, asked: dict[str, Any], most_noise: float, largest: int
) -> None:
    found = make(digits_run, tmp_path, precision, **asked)
    # The float network is right for 98 of 100, and half a point is half a sample.
    assert found.right >= 98
    assert found.agreeing >= 98
    assert found.noise < most_noise
    # The float32 file has 132 kB.
    assert found.size < largest
    assert found.artifact.io[0].shape == (-1, 1, 8, 8)
    if precision != "int8-dynamic":
        assert found.artifact.operators is not None
        assert found.artifact.operators.floating == {}
        assert sum(found.artifact.operators.integer.values()) >= 20

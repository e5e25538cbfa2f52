"""The bundled digits classifier: every shipped form gives the same right answers."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convert.models

FOLDER = Path(convert.models.__file__).parent / "digits"
SHIPPED = ("weights.pt", "digits.pt2", "digits_script.pt", "samples.npz", "labels.npz")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # torch calls TorchScript deprecated


def samples() -> np.ndarray[Any, Any]:
    """The shipped images."""
    with np.load(FOLDER / "samples.npz") as data:
        assert data.files == ["image"]
        return np.asarray(data["image"])


def logits(net: Any, images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What ``net`` gives for ``images``."""
    import torch

    with torch.no_grad():
        return np.asarray(net(torch.from_numpy(images)).numpy())


def test_shipped_files_are_small_and_name_no_machine() -> None:
    assert sum((FOLDER / name).stat().st_size for name in SHIPPED) < 1_000_000
    for name in SHIPPED:
        with zipfile.ZipFile(FOLDER / name) as archive:
            everything = b"".join(archive.read(entry) for entry in archive.namelist())
        assert b"site-packages" not in everything
        assert b"/digits/" not in everything


def test_samples_are_normalised_images_without_labels() -> None:
    images = samples()
    assert (images.shape, images.dtype) == ((100, 1, 8, 8), np.float32)
    assert (images.min(), images.max()) == (-1.0, 1.0)
    np.testing.assert_array_equal(images * 8, np.round(images * 8))
    with np.load(FOLDER / "labels.npz") as data:
        assert data.files == ["label"]
        assert (data["label"].shape, data["label"].dtype) == ((100,), np.int64)
        assert sorted(set(data["label"].tolist())) == list(range(10))


@pytest.mark.toolkit
def test_network_is_right_for_98_of_the_100_samples() -> None:
    from convert.models.digits.net import digits

    net = digits()
    assert not any(module.training for module in net.modules())
    assert sum(parameter.numel() for parameter in net.parameters()) == 31450
    with np.load(FOLDER / "labels.npz") as data:
        assert int((logits(net, samples()).argmax(1) == data["label"]).sum()) == 98


@pytest.mark.toolkit
def test_logits_differ_between_samples() -> None:
    from convert.models.digits.net import digits

    values = logits(digits(), samples())
    assert np.sqrt((values.std(0) ** 2).mean() / (values**2).mean()) > 0.9


@pytest.mark.toolkit
@pytest.mark.parametrize("batch", [1, 3, 64])
def test_program_gives_the_same_logits_at_every_batch(batch: int) -> None:
    import torch

    from convert.models.digits.net import digits

    program = torch.export.load(FOLDER / "digits.pt2")
    assert program.graph_signature.user_inputs == ("image",)
    assert program.example_inputs[0][0].shape == (8, 1, 8, 8)
    (limits,) = program.range_constraints.values()
    assert (limits.lower, limits.upper) == (1, 64)
    images = samples()[:batch]
    np.testing.assert_allclose(logits(program.module(), images), logits(digits(), images), rtol=0, atol=2e-5)


@pytest.mark.toolkit
def test_script_gives_the_same_logits() -> None:
    import torch

    from convert.models.digits.net import digits

    script = torch.jit.load(FOLDER / "digits_script.pt")
    assert not script.training
    assert [argument.name for argument in script.forward.schema.arguments] == ["self", "image"]
    np.testing.assert_allclose(logits(script, samples()), logits(digits(), samples()), rtol=0, atol=2e-5)

"""What integers cost the digits classifier in ONNX, on data that it was not calibrated with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import graphs

import convert.models
from convert.targets import load_target

FOLDER = Path(convert.models.__file__).parent / "digits"
pytestmark = [
    pytest.mark.toolkit,
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"),
]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The exported graph with a dynamic batch."""
    import onnx
    import torch

    from convert.models.digits.net import digits as make

    file = tmp_path_factory.mktemp("digits") / "digits.onnx"
    names = {
        "input_names": ["image"],
        "output_names": ["logits"],
        "dynamic_axes": {"image": {0: "N"}, "logits": {0: "N"}},
    }
    torch.onnx.export(make(), (torch.zeros(4, 1, 8, 8),), str(file), dynamo=False, opset_version=17, **names)
    return onnx.load(str(file))


@pytest.mark.parametrize(
    ("precision", "rule", "sqnr"),
    [("int8", "minmax", 27.0), ("int8", "percentile", 27.0), ("int8", "mse", 27.0), ("int8-dynamic", "minmax", 30.0)],
)
def test_digits_keep_their_accuracy(tmp_path: Path, digits: Any, precision: str, rule: str, sqnr: float) -> None:
    from convert.records import Quantization

    images, labels = (np.load(FOLDER / f"{name}.npz")[key] for name, key in (("samples", "image"), ("labels", "label")))
    seen, others = images[:50], images[50:]
    data = graphs.Batches([{"image": batch} for batch in np.split(seen, 10)])
    target = load_target("onnx")
    route = target.routes(precision)[0].name
    more: dict[str, Any] = {"calibration": data, "quantization": Quantization(rule=rule)}
    request = graphs.request(tmp_path, digits, "onnx", precision, route, **more)
    artifact = target.build(request)
    (wanted,) = graphs.run(digits, {"image": others})
    got = target.open(artifact, request.folder, 1).run({"image": others})["logits"]
    assert 10 * np.log10((wanted**2).sum() / ((got - wanted) ** 2).sum()) > sqnr
    assert (got.argmax(1) == wanted.argmax(1)).mean() >= 0.98
    right, before = ((logits.argmax(1) == labels[50:]).sum() for logits in (got, wanted))
    assert right >= before - 1
    assert (request.folder / "model.onnx").stat().st_size < 0.5 * (request.onnx or tmp_path).stat().st_size
    assert artifact.operators is not None
    assert (artifact.operators.floating == {}) == (precision == "int8")

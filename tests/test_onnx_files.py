"""ONNX files with their weights inside or beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convert.targets import onnx_files

onnx = pytest.importorskip("onnx")


def model(size: int) -> Any:
    weight = onnx.numpy_helper.from_array(np.arange(size, dtype=np.float32), "w")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [value("x", 1, [size])],
        [value("y", 1, [size])],
        [weight],
    )
    return onnx.helper.make_model(graph)


def weights(file: Path) -> list[float]:
    return list(onnx.numpy_helper.to_array(onnx.load(str(file)).graph.initializer[0]))


def test_a_small_model_is_one_file(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    (tmp_path / "model.onnx.data").write_bytes(b"of an earlier one")
    onnx_files.save_graph(model(4), file)
    assert onnx_files.onnx_files(file) == ("model.onnx",)
    assert weights(file) == [0, 1, 2, 3]


def test_a_large_model_keeps_its_weights_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_files, "EXTERNAL_BYTES", 1000)
    file = tmp_path / "model.onnx"
    onnx_files.save_graph(model(1000), file)
    assert onnx_files.onnx_files(file) == ("model.onnx", "model.onnx.data")
    assert file.stat().st_size < 1000
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in onnx_files.onnx_files(file):
        (tmp_path / name).rename(moved / name)
    assert weights(moved / "model.onnx") == list(range(1000))


def test_scattered_weights_are_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_files, "EXTERNAL_BYTES", 1000)
    file = tmp_path / "model.onnx"
    onnx.save(model(1000), str(file), save_as_external_data=True, location="scattered", size_threshold=0)
    onnx_files.gather_weights(file)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert weights(file) == list(range(1000))

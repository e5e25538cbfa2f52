"""ONNX files on disk: one protobuf, or a protobuf with its weights in one file beside it.

A protobuf ends at 2 GiB, so large weights go into ``NAME.data``, which has to move together with ``NAME``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: Weights beyond this go into a file of their own.
EXTERNAL_BYTES = 1_500_000_000


def onnx_files(model: Path) -> tuple[str, ...]:
    """Names of the file and, where its weights lie apart, of the data beside it."""
    data = data_file(model)
    return (model.name, data.name) if data.is_file() else (model.name,)


def data_file(model: Path) -> Path:
    """Where the weights of ``model`` lie when they lie apart."""
    return model.with_name(f"{model.name}.data")


def save_graph(model: Any, file: Path) -> None:
    """Write a model whose weights are in memory, as one file or two, whichever its size asks for."""
    import onnx

    data_file(file).unlink(missing_ok=True)
    onnx.save(
        model,
        str(file),
        save_as_external_data=weight_bytes(model) > EXTERNAL_BYTES,
        location=data_file(file).name,
        size_threshold=1024,
    )


def weight_bytes(model: Any) -> int:
    """Bytes of the weights that are in memory; counted one by one, since a protobuf beyond 2 GiB has no size."""
    return sum(tensor.ByteSize() for tensor in model.graph.initializer)


def gather_weights(file: Path) -> None:
    """Bring weights that an exporter scattered over many files into the one beside ``file``, and drop the others."""
    import onnx

    model = onnx.load(str(file), load_external_data=False)
    scattered = {
        entry.value
        for tensor in model.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location" and entry.value != data_file(file).name
    }
    if scattered:
        save_graph(onnx.load(str(file)), file)
        for name in scattered:
            file.with_name(name).unlink(missing_ok=True)

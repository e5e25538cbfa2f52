"""Opening exported programs on the CPU, without running what may be hidden in the file."""

from __future__ import annotations

import io
import json
import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from convert.errors import InputError
from convert.models.factory import one_line
from convert.models.pt2 import require_harmless

_FORCE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def open_program(path: str, trust_pickle: bool) -> Any:
    """The ``ExportedProgram`` in ``path``, on the CPU.

    Raises:
        InputError: the file would run code and ``trust_pickle`` is False, or this torch cannot read it.
    """
    import torch

    try:
        data = Path(path).read_bytes()
        if not trust_pickle:
            _require_harmless(path, data)
        data = _on_cpu(data) if not torch.cuda.is_available() else data
        with warnings.catch_warnings(), _weights_only(not trust_pickle):
            warnings.simplefilter("ignore")
            program = torch.export.load(io.BytesIO(data))
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{path} cannot be opened by torch {torch.__version__} ({one_line(error)}); export it again with it"
        ) from error
    return _moved(program) if torch.cuda.is_available() else program


def _require_harmless(path: str, data: bytes) -> None:
    """Look at the archive through both readers that torch may use, since a crafted zip can show each another file."""
    import torch

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        require_harmless(path, archive.namelist(), archive.read)
    try:
        reader = torch._C.PyTorchFileReader(io.BytesIO(data))
    except RuntimeError:  # the format from before torch 2.8 is a plain zip
        return
    require_harmless(path, reader.get_all_records(), reader.get_record)


@contextmanager
def _weights_only(active: bool) -> Iterator[None]:
    """While this lasts, every torch.load refuses to run code, also those that torch.export asks to do so."""
    before = os.environ.get(_FORCE)
    if active:
        os.environ[_FORCE] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_FORCE, None)
        else:
            os.environ[_FORCE] = before


def _on_cpu(data: bytes) -> bytes:
    """The archive with every mention of a CUDA device turned into the CPU; the loader itself cannot remap devices."""
    import torch

    try:
        reader = torch._C.PyTorchFileReader(io.BytesIO(data))
    except RuntimeError:
        return data
    records = {name: reader.get_record(name) for name in reader.get_all_records()}
    if not any(b'"cuda"' in item for name, item in records.items() if name.endswith(".json")):
        return data
    target = io.BytesIO()
    writer = torch._C.PyTorchFileWriter(target)
    writer.set_min_version(6)
    for name, item in records.items():
        if name not in ("version", ".data/version", ".data/serialization_id", "byteorder"):
            changed = _record_on_cpu(name, item)
            writer.write_record(name, changed, len(changed))
    writer.write_end_of_file()
    return target.getvalue()


def _record_on_cpu(name: str, item: bytes) -> bytes:
    import torch

    if name.endswith(".json"):
        return json.dumps(_devices_on_cpu(json.loads(item))).encode()
    if name.endswith(".pt"):
        buffer = io.BytesIO()
        torch.save(torch.load(io.BytesIO(item), map_location="cpu", weights_only=True), buffer)
        return buffer.getvalue()
    return item


def _devices_on_cpu(value: Any) -> Any:
    if isinstance(value, list):
        return [_devices_on_cpu(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "cuda" and set(value) == {"type", "index"}:
        return {"type": "cpu", "index": None}
    return {key: _devices_on_cpu(item) for key, item in value.items()}


def _moved(program: Any) -> Any:
    from torch.export.passes import move_to_device_pass

    return move_to_device_pass(program, "cpu")

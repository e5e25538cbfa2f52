"""Weights in safetensors files: tensors by name and nothing that could run."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from convert.errors import InputError
from convert.models.content import head
from convert.models.content import is_safetensors as looks_like_it
from convert.models.factory import one_line


def is_safetensors(path: str) -> bool:
    """Whether the file has the structure of safetensors."""
    return looks_like_it(head(Path(path)), Path(path).stat().st_size)


def read(path: str) -> dict[str, Any]:
    """The tensors in the file, on the CPU.

    Raises:
        InputError: the package that reads them is not there, or the file is damaged.
    """
    try:
        load_file = import_module("safetensors.torch").load_file
    except ImportError as error:
        raise InputError(
            f"{path} is a safetensors file and the package safetensors, which reads it, is not installed beside torch; "
            "install it, or save the state dict with torch.save"
        ) from error
    try:
        weights: dict[str, Any] = load_file(path, device="cpu")
    except Exception as error:
        raise InputError(f"{path} cannot be read ({one_line(error)}); copy or save it again") from error
    return weights

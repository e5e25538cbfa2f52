"""The learned ranges as they lie in a saved program. Reading them imports no toolkit and runs nothing from the file."""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path
from typing import Any

from convert.errors import InputError

EXTRA = "convert_qat.json"
"""Name of the extra file in the archive."""
VERSION = 1


def read_ranges(path: str | Path) -> dict[str, Any] | None:
    """What :func:`convert.qat.save` wrote beside the program; None for any other file.

    Returns:
        ``version`` 1; ``inputs`` and ``outputs``, the names of the points that the program takes and gives, in order;
        ``points``: name -> ``low`` and ``high`` (float32, around zero), ``operator`` as torch calls it, the points that
        it ``reads``, whether it only ``moved`` values, and the activation that it is ``inside`` of (or ""). Points are
        the float tensors of the graph in their order; each is a module of its name in the program, and some converters
        carry these names along.

    Raises:
        InputError: the part is damaged or of another version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            found = next((name for name in archive.namelist() if name.split("/")[-2:] == ["extra", EXTRA]), None)
            text = None if found is None else archive.read(found)
    except (OSError, zipfile.BadZipFile):
        return None
    return None if text is None else _checked(text, path)


def _checked(text: bytes, path: str | Path) -> dict[str, Any]:
    again = "save it again with convert.qat.save"
    try:
        value = dict(json.loads(text))
        if value["version"] != VERSION:
            raise InputError(
                f"the learned ranges in {path} have the version {value['version']}, and this convert reads {VERSION}; "
                f"{again}"
            )
        fine = all(map(_is_range, value["points"].values()))
        fine = fine and {*value["inputs"], *value["outputs"]} <= value["points"].keys()
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"the learned ranges in {path} are damaged ({type(error).__name__}); {again}") from error
    if not fine:
        raise InputError(f"the learned ranges in {path} are damaged (a range is not two numbers around zero); {again}")
    return value


def _is_range(item: Any) -> bool:
    low, high = item["low"], item["high"]
    return math.isfinite(low) and math.isfinite(high) and low <= 0 <= high

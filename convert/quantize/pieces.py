"""What readers give: some samples of the user's data, by name of the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from convert.arrays import array_of, is_array
from convert.errors import InputError

Array = np.ndarray[Any, Any]
#: What can be given, for messages.
FORMS = "a .npz, a .npy, a .pt, a folder of images with --preprocess, file.py:function, or the word random"


@dataclass(frozen=True)
class Piece:
    """Some samples.

    Attributes:
        values: array by input name.
        labels: what else came with them, in order; nothing where there was nothing.
        table: the first axis of every array counts samples; else the arrays are one sample or one batch.
    """

    values: dict[str, Array]
    labels: tuple[Any, ...] = ()
    table: bool = False


def piece(value: Any, names: Sequence[str], spec: str, *, table: bool) -> Piece:
    """Tell inputs from labels in one thing that a file or function gave.

    Args:
        value: an array or tensor; a dict by input name; or a tuple or list, inputs first and then labels.
        names: the inputs of the model, in order.
        spec: the data, for messages.
        table: see :class:`Piece`.

    Raises:
        InputError: it is something else, or it has not all inputs.
    """
    if is_array(value):
        value = (value,)
    if isinstance(value, Mapping):
        return _by_name(value, names, spec, table)
    if not isinstance(value, tuple | list):
        raise InputError(
            f"{spec} gives a {type(value).__name__}; give tensors, dicts of them by input name, or tuples in the "
            "order of the inputs"
        )
    if len(value) < len(names):
        raise InputError(
            f"{spec} gives {_count(value)}, but the model takes {len(names)} ({', '.join(names)}); give all of them"
        )
    values = {name: array_of(name, one, spec) for name, one in zip(names, value, strict=False)}
    return Piece(values, tuple(value[len(names) :]), table)


def _by_name(value: Mapping[Any, Any], names: Sequence[str], spec: str, table: bool) -> Piece:
    missing = [name for name in names if name not in value]
    if missing:
        have = ", ".join(map(str, value)) or "nothing"
        raise InputError(
            f"{spec} has {have}, but the model takes {', '.join(names)}; give an array under each of these names"
        )
    values = {name: array_of(name, value[name], spec) for name in names}
    return Piece(values, tuple(one for key, one in value.items() if key not in names), table)


def _count(value: Sequence[Any]) -> str:
    return f"{len(value)} array{'' if len(value) == 1 else 's'} without names"

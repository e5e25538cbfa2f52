"""The user's own measure of an artifact: ``file.py:function``, called with predictions and data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from convert.errors import InputError
from convert.models import factory
from convert.models.detect import split_factory

Array = np.ndarray[Any, Any]
Pairs = Iterable[tuple[dict[str, Array], Any]]


def score(text: str, predictions: Mapping[str, Array], data: Pairs) -> float:
    """Call the function that ``text`` names as ``function(predictions, data)``.

    Args:
        text: ``file.py:function`` or ``pkg.mod:function``.
        predictions: output name -> its values for all samples, joined along the first axis.
        data: feeds and labels of each batch, in the same order.

    Returns:
        What the function gave; larger is better.

    Raises:
        InputError: there is no such function, it failed, or it gave no finite number.
    """
    if ":" not in Path(text).name:
        raise InputError(f"--metric {text} names no function; write file.py:function")
    try:
        function = factory.find(*split_factory(text))
    except InputError as error:
        raise InputError(f"--metric {text}: {error}") from error
    try:
        value = function(dict(predictions), _guarded(data))
    except InputError:  # the data's own complaint
        raise
    except (Exception, SystemExit) as error:
        raise InputError(
            f"--metric {text} failed: {factory.one_line(error)}; it is called with the predictions (a dict of arrays "
            "by output name) and the data (pairs of feeds and labels)"
        ) from error
    return _number(value, text)


def _guarded(data: Pairs) -> Pairs:
    """``data``; where it can be read only once, a second time is an error, for it would look like no data at all."""
    return _Once(data) if isinstance(data, Iterator) else data


class _Once:
    def __init__(self, data: Iterator[tuple[dict[str, Array], Any]]) -> None:
        self._data: Iterator[tuple[dict[str, Array], Any]] | None = data

    def __iter__(self) -> Iterator[tuple[dict[str, Array], Any]]:
        if self._data is None:
            raise RuntimeError("the data can be read only once; keep what is needed in a list")
        data, self._data = self._data, None
        return data


def _number(value: Any, text: str) -> float:
    """One finite number from a number of Python or numpy, or from a tensor or array of one element."""
    if hasattr(value, "item") and math.prod(np.shape(value)) == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        given = f"a {type(value).__name__}"
    elif isinstance(value, int) and abs(value) >= 2**1023:
        given = "an int that no float can hold"
    elif not math.isfinite(value):
        given = f"{value:g}"
    else:
        return float(value)
    raise InputError(f"--metric {text} gives {given}; it must give one finite number, larger where the model is better")

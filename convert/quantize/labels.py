"""What came with the samples beside the inputs, one thing for each sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from convert.arrays import is_array
from convert.errors import InputError


def labels_of(labels: Sequence[Any], samples: int, single: bool, spec: str) -> list[tuple[Any, ...]]:
    """For each of ``samples`` samples, the labels that came with it.

    Args:
        labels: as the user's data have them; each for one sample or for all.
        samples: how many there are.
        single: the piece was one sample, and not a batch or table.
        spec: the data, for messages.

    Raises:
        InputError: there are not as many labels as samples.
    """
    if not labels:
        return [()] * samples
    columns = [[one] if single else _split(one, samples, spec) for one in labels]
    return list(zip(*columns, strict=True))


def _split(value: Any, samples: int, spec: str) -> list[Any]:
    """One batch of labels, cut along its first axis; a dict is cut along that of each of its values."""
    if isinstance(value, Mapping):
        columns = {key: _split(one, samples, spec) for key, one in value.items()}
        return [{key: column[index] for key, column in columns.items()} for index in range(samples)]
    shape = getattr(value, "shape", None)
    if is_array(value):
        count = int(shape[0]) if shape else -1
    else:
        count = len(value) if isinstance(value, list | tuple) else -1
    if count != samples:
        given = "one label" if count < 0 else f"{count} labels"
        raise InputError(f"{spec} gives {given} to {samples} samples; give one label to each sample")
    return list(value)

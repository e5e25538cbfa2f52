"""The user's own data: reading it from a file or function, and cutting it into test cases."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convert.arrays import array_of, is_array
from convert.errors import InputError
from convert.models import factory, unpickle
from convert.models.batches import listed, show, split_into_cases
from convert.models.content import ZIP_ERRORS, bomb_problem, head
from convert.models.detect import split_factory
from convert.paths import exists, is_folder
from convert.records import InputSpec

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
    Sample = dict[str, Array]
    Samples = Sample | list[Sample]

__all__ = ["MOST_SAMPLES", "infer_specs", "load_samples", "split_into_cases"]

MOST_SAMPLES = 256
"""How many samples are taken from a list or from a function that yields them without end."""


def load_samples(spec: str, param_names: Sequence[str], trust_pickle: bool = False) -> Samples:
    """Read samples.

    Args:
        spec: a ``.npz`` (keys are input names), a file of ``torch.save`` (a tensor, a mapping, a tuple or list in the
            order of the inputs, or a list of such), or ``file.py:function``, which returns or yields such things.
        param_names: names of the model's inputs, in order, for data without names; empty if unknown.
        trust_pickle: code in the file may run.

    Returns:
        Arrays by input name (the first axis is often a batch), or a list of these, at most :data:`MOST_SAMPLES`.

    Raises:
        InputError: there is no such file, or it holds something else.
    """
    if is_folder(spec):
        raise InputError(f"{spec} is a folder; give a .npz, a .pt or file.py:function with samples")
    if not exists(spec) and ":" not in Path(spec).name:
        raise InputError(f"there is no file {spec}; give a .npz, a .pt or file.py:function with samples")
    if not exists(spec):
        where, name = split_factory(spec)
        return _samples(factory.call(where, name), param_names, spec)
    path = str(Path(spec).absolute())
    try:
        start = head(Path(path))
    except OSError as error:
        raise InputError(f"{spec} cannot be read ({error.strerror}); check its permissions") from error
    if start.startswith(b"PK") and _is_npz(path):
        return _samples(_read_npz(path), param_names, spec)
    if start[:2] == b"PK" or start[:1] == b"\x80":
        return _samples(unpickle.read(path, trust_pickle), param_names, spec)
    raise InputError(
        f"{spec} holds no samples (its first bytes are {start[:8]!r}); give a .npz, a .pt or file.py:function"
    )


def infer_specs(samples: Samples) -> tuple[InputSpec, ...]:
    """Specifications of inputs that the user did not give: the first axis is the dimension ``N``, all others fixed.

    Raises:
        InputError: the first axes or the other sizes do not agree, or there are no samples.
    """
    specs: dict[str, InputSpec] = {}
    for sample in listed(samples):
        rows = {name: array.shape[0] for name, array in sample.items() if array.ndim}
        if len(set(rows.values())) > 1:
            text = ", ".join(f"{name} {count}" for name, count in rows.items())
            raise InputError(f"the samples' first axes differ ({text}), so they are no common batch; give --input")
        found = {name: InputSpec(name, str(array.dtype), _batched(array)) for name, array in sample.items()}
        for name, spec in found.items():
            known = specs.setdefault(name, spec)
            if known != spec:
                raise InputError(
                    f"the samples of {name} differ ({show(known)} and {show(spec)}); give --input and --dim"
                )
        if set(found) != set(specs):
            raise InputError(f"the samples have different inputs ({', '.join(specs)} and {', '.join(found)})")
    return tuple(specs.values())


def _batched(array: Array) -> tuple[int | str, ...]:
    return ("N", *array.shape[1:]) if array.ndim else ()


def _is_npz(path: str) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            problem = bomb_problem(archive, Path(path).stat().st_size)
            if problem:
                raise InputError(f"{path} cannot be samples, since {problem}; save it again")
            return all(name.endswith(".npy") for name in archive.namelist())
    except ZIP_ERRORS as error:
        raise InputError(f"{path} is a zip file that was cut short or damaged ({error}); copy it again") from error


def _read_npz(path: str) -> Any:
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:  # numpy and zipfile raise a dozen kinds for files that are damaged
        raise InputError(
            f"{path} cannot be read ({factory.one_line(error)}); save plain arrays with numpy.savez"
        ) from error
    if all(name == f"arr_{index}" for index, name in enumerate(arrays)):
        return tuple(arrays.values())
    return arrays


def _samples(value: Any, param_names: Sequence[str], spec: str) -> Samples:
    """Give names to what was read."""
    if is_array(value):
        return _named([value], param_names, spec)
    if isinstance(value, Mapping):
        return _checked(value, spec)
    if isinstance(value, list | tuple) and value and all(map(is_array, value)):
        return _named(list(value), param_names, spec)
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        raise InputError(f"{spec} gives a {type(value).__name__} and no arrays by input name; give a dict of them")
    result: list[Sample] = []
    for item in _guarded(islice(value, MOST_SAMPLES), spec):
        one = _samples(item, param_names, spec) if item is not value else None
        if not isinstance(one, dict):
            raise InputError(f"{spec} gives lists within lists; give a list of dicts of arrays")
        result.append(one)
    if not result:
        raise InputError(f"{spec} gives no samples; give at least one")
    return result


def _guarded(items: Iterator[Any], spec: str) -> Iterator[Any]:
    try:
        yield from items
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{spec} failed while it gave samples: {factory.one_line(error)}") from error


def _named(values: list[Any], param_names: Sequence[str], spec: str) -> Sample:
    if len(values) > len(param_names):
        known = f"the model takes {len(param_names)} ({', '.join(param_names)})"
        known = known if param_names else "the inputs' names are unknown"
        raise InputError(f"{spec} gives {len(values)} arrays without names, but {known}; give a dict by input name")
    return _checked(dict(zip(param_names, values, strict=False)), spec)


def _checked(values: Mapping[Any, Any], spec: str) -> Sample:
    if not values:
        raise InputError(f"{spec} gives an empty dict; give an array for every input")
    return {str(name): array_of(str(name), value, spec) for name, value in values.items()}

"""Calibration data that live in this process, turned into the file that the command line takes."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convert.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

#: Texts as labels, cut to one length.
_TEXT = "U64"
_FORMS = (
    "give arrays whose first axis counts samples, a Dataset, a DataLoader, or anything that gives samples one by one"
)


def write_data(value: Any, folder: Path) -> str:
    """Write calibration data as a ``.npz``, one sample in memory at a time; gives the text for ``--calibration``.

    Args:
        value: arrays or tensors (alone, as a tuple in the order of the inputs, or by input name) whose first axis
            counts samples; a ``DataLoader``, whose items are batches; else an iterable or ``Dataset`` of samples.
            What follows the inputs in a tuple, or has another name, are labels.
        folder: is made.

    Raises:
        InputError: something else, nothing at all, or samples that differ in shape or dtype.
    """
    folder.mkdir()
    columns: dict[str, _Column] = {}
    with ExitStack() as stack:
        for count, rows in enumerate(_rows(value)):
            if not columns:
                for place, (name, array) in enumerate(rows.items()):
                    file = folder / f"{place}.raw"
                    columns[name] = _Column(name, array, stack.enter_context(file.open("wb")), file)
            if rows.keys() != columns.keys():
                raise InputError(
                    f"sample {count} of the calibration data has {', '.join(rows)}, and those before have "
                    f"{', '.join(columns)}; give the same with each"
                )
            for name, array in rows.items():
                columns[name].add(array)
    if not columns:
        raise InputError("the calibration data hold no sample; give at least one")
    return str(_zip(columns.values(), folder / "calibration.npz"))


class _Column:
    """The values of one input or label, written as they come."""

    def __init__(self, name: str, first: Array, stream: Any, file: Path) -> None:
        """For arrays like ``first``; nothing is written yet."""
        self.name, self.shape, self.dtype, self.rows = name, first.shape[1:], first.dtype, 0
        self.file, self._stream = file, stream

    def add(self, array: Array) -> None:
        """Write more rows; raises ``InputError`` where they differ from those before."""
        import numpy as np

        if (array.shape[1:], array.dtype) != (self.shape, self.dtype):
            raise InputError(
                f"{self.name} in the calibration data is {array.dtype}{list(array.shape[1:])} in one sample and "
                f"{self.dtype}{list(self.shape)} in another; give all in one shape and dtype"
            )
        self._stream.write(np.ascontiguousarray(array).data)
        self.rows += array.shape[0]


def _zip(columns: Iterable[_Column], file: Path) -> Path:
    import shutil

    from numpy.lib.format import dtype_to_descr, write_array_header_2_0

    with zipfile.ZipFile(file, "w") as archive:
        for column in columns:
            header = {
                "descr": dtype_to_descr(column.dtype),
                "fortran_order": False,
                "shape": (column.rows, *column.shape),
            }
            with archive.open(f"{column.name}.npy", "w", force_zip64=True) as stream, column.file.open("rb") as raw:
                write_array_header_2_0(stream, header)
                shutil.copyfileobj(raw, stream)
            column.file.unlink()
    return file


def _rows(value: Any) -> Iterator[dict[str, Array]]:
    """Some samples at a time: arrays by name, whose first axis counts them."""
    if _is_table(value):
        yield _named(value)
        return
    if isinstance(value, str | bytes | Mapping) or not (hasattr(value, "__iter__") or hasattr(value, "__getitem__")):
        raise InputError(f"calibration is a {type(value).__name__}; {_FORMS}")
    batched = hasattr(value, "dataset") and getattr(value, "batch_size", None) is not None
    for item in _items(value):
        found = _named(item)
        yield found if batched else {name: array[None] for name, array in found.items()}


def _items(value: Any) -> Iterator[Any]:
    if hasattr(value, "__iter__"):
        yield from value
        return
    for index in range(len(value)):  # a Dataset says how many it has, and need not end by itself
        yield value[index]


def _is_table(value: Any) -> bool:
    from convert.arrays import is_array

    items = value.values() if isinstance(value, Mapping) else value
    several = isinstance(value, Mapping | tuple) and bool(value) and all(map(is_array, items))
    return is_array(value) or several


def _named(item: Any) -> dict[str, Array]:
    from convert.arrays import is_array

    if isinstance(item, Mapping):
        return {str(name): _array(str(name), one) for name, one in item.items()}
    values = [item] if is_array(item) else item
    if not isinstance(values, list | tuple) or not values:
        raise InputError(f"a sample of the calibration data is a {type(item).__name__}; {_FORMS}")
    return {f"arr_{place}": _array(f"array {place}", one) for place, one in enumerate(values)}


def _array(name: str, value: Any) -> Array:
    import numpy as np

    from convert.arrays import to_array

    plain = np.asarray(value) if isinstance(value, bool | int | float | str) else value
    if isinstance(plain, np.ndarray) and plain.dtype.kind == "U":
        return plain.astype(_TEXT)
    if not (isinstance(plain, np.ndarray | np.generic) or hasattr(plain, "detach")):
        raise InputError(
            f"{name} in the calibration data is a {type(value).__name__}; give arrays, numbers or texts here, and what "
            "is anything else by 'file.py:function'"
        )
    return to_array(f"{name} in the calibration data", plain)

"""Modules of fixed sizes as one: take the smallest that holds the arrays, pad what goes in, cut what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from convert.errors import StageError

Array = np.ndarray[Any, Any]
Engine = Callable[[list[Array]], list[Array]]
#: Per axis a fixed size or the name of a dimension; -1 where an output's size follows no dimension exactly.
Shape = Sequence[int | str]


def pad(value: Array, shape: Shape, sizes: Mapping[str, int]) -> Array:
    """``value`` with its named axes as large as ``sizes``; its last row is repeated, since zeros may give NaN."""
    wide = [(0, sizes.get(str(axis), size) - size) for axis, size in zip(shape, value.shape, strict=True)]
    return np.pad(value, wide, mode="edge") if any(after for _, after in wide) else value


def cut(value: Array, shape: Shape, sizes: Mapping[str, int]) -> Array:
    """``value`` with its named axes cut to ``sizes``; as it is where it has another number of axes."""
    if value.ndim != len(shape):
        return value
    return value[tuple(slice(sizes[str(axis)] if axis in sizes else None) for axis in shape)]


class BucketEngine:
    """All modules of an artifact that has buckets. Each is loaded when it is first needed."""

    def __init__(self, settings: Mapping[str, Any], load: Callable[[str], Engine]) -> None:
        """``settings`` is what ``tvm_bucket_build.py`` wrote; ``load`` gives one module by its file."""
        self._settings = settings
        self._load = load
        self._loaded: dict[str, Engine] = {}
        self._padded = frozenset(settings["padded"])

    def __call__(self, feeds: list[Array]) -> list[Array]:
        """Run the smallest module that holds ``feeds``.

        Raises:
            StageError: a size is none that the artifact was made for.
        """
        shapes: Sequence[Shape] = self._settings["inputs"]
        sizes = _sizes(feeds, shapes)
        bucket = self._bucket(sizes)
        larger = {name: bucket["dims"][name] for name in self._padded}
        asked = {name: sizes[name] for name in self._padded}
        results = self._engine(bucket["file"])([pad(*one, larger) for one in zip(feeds, shapes, strict=True)])
        outputs: Sequence[Shape] = self._settings["outputs"]
        if len(results) != len(outputs):
            return results  # which the session refuses
        return [cut(*one, asked) for one in zip(results, outputs, strict=True)]

    def _bucket(self, sizes: Mapping[str, int]) -> Mapping[str, Any]:
        for name, (low, high) in self._settings["range"].items():
            if not low <= sizes[name] <= high:
                raise StageError(
                    f"{name} is {sizes[name]}, and this artifact was made for {name}={low}..{high}; "
                    "feed such a size, or convert again with another --dim"
                )
        fitting = [one for one in self._settings["buckets"] if self._fits(one["dims"], sizes)]
        return dict(min(fitting, key=lambda one: prod(one["dims"].values())))

    def _fits(self, bucket: Mapping[str, int], sizes: Mapping[str, int]) -> bool:
        return all(
            size >= sizes[name] if name in self._padded else size == sizes[name] for name, size in bucket.items()
        )

    def _engine(self, file: str) -> Engine:
        if file not in self._loaded:
            self._loaded[file] = self._load(file)
        return self._loaded[file]


def _sizes(feeds: Sequence[Array], shapes: Sequence[Shape]) -> dict[str, int]:
    """The dimensions of ``feeds``."""
    found: dict[str, int] = {}
    for feed, shape in zip(feeds, shapes, strict=True):
        if feed.ndim != len(shape):
            raise StageError(f"an input has {feed.ndim} axes, and [{', '.join(map(str, shape))}] is wanted; reshape it")
        for axis, size in zip(shape, feed.shape, strict=True):
            if isinstance(axis, str) and found.setdefault(axis, size) != size:
                raise StageError(f"{axis} is {found[axis]} in one input and {size} in another; give both the same size")
    return found

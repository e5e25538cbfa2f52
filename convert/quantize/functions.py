"""Data that code of the user's gives, and folders of images that it prepares."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from convert.errors import InputError
from convert.models import factory
from convert.models.detect import split_factory
from convert.quantize.pieces import Piece, piece
from convert.quantize.tables import pieces_of

#: Endings of the images that are read; Pillow reads them all.
IMAGES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".pgm", ".tif", ".tiff", ".webp"})


def read_function(spec: str, names: Sequence[str]) -> Generator[Piece]:
    """What ``file.py:function`` returns or yields: a data set, a loader, a generator, a list, or whole arrays."""
    where, name = split_factory(spec)
    factory.module(where)
    _seed()
    value = factory.call(where, name)
    yield from _guarded(pieces_of(value, names, spec), spec)


def _seed() -> None:
    """Data that are shuffled or changed at random are the same whenever they are read."""
    random.seed(0)
    np.random.seed(0)
    with suppress(ImportError):  # imported here at the latest, for the user's function may do it as late as it likes
        import_module("torch").manual_seed(0)


def _guarded(pieces: Iterator[Piece], spec: str) -> Iterator[Piece]:
    """The user's code runs with every item, not only when it is called."""
    try:
        yield from pieces
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{spec} failed while it gave samples: {factory.one_line(error)}") from error


def read_images(folder: Path, preprocess: str, names: Sequence[str], spec: str) -> Generator[Piece]:
    """Every image below ``folder`` in order of its path, through the user's ``preprocess``.

    The function gets the image as Pillow opens it, in RGB, or its ``pathlib.Path`` if its first argument is called
    ``path`` or ``file``.
    Images in folders below ``folder`` are labelled with the number of the first of these, in order of their names.

    Raises:
        InputError: there are none, one cannot be read, or the function fails.
    """
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGES and path.is_file())
    if not files:
        raise InputError(f"{spec} has no images in it; allowed are {', '.join(sorted(IMAGES))}")
    function = factory.find(*split_factory(preprocess))
    _seed()
    load: Callable[[Path], Any] = (lambda path: path) if _takes_path(function) else _loader(preprocess)
    classes = {name: place for place, name in enumerate(sorted({file.relative_to(folder).parts[0] for file in files}))}
    labelled = all(len(file.relative_to(folder).parts) > 1 for file in files)
    for file in files:
        image = load(file)
        try:
            value = function(image)
        except (Exception, SystemExit) as error:
            raise InputError(f"{preprocess} failed on {file}: {factory.one_line(error)}") from error
        found = piece(value, names, preprocess, table=False)
        labels = (classes[file.relative_to(folder).parts[0]],) if labelled else ()
        yield Piece(found.values, found.labels or labels)


def _takes_path(function: Callable[..., Any]) -> bool:
    try:
        first = next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):
        return False
    return first in ("path", "file")


def _loader(preprocess: str) -> Callable[[Path], Any]:
    try:
        from PIL import Image
    except ImportError:
        raise InputError(
            f"{preprocess} takes images as Pillow opens them, and Pillow is not installed; install it, or call the "
            "first argument of the function path to get the path of each image"
        ) from None

    def load(path: Path) -> Any:
        try:
            with Image.open(path) as image:
                return image.convert("RGB")
        except Exception as error:
            raise InputError(f"{path} cannot be read as an image ({factory.one_line(error)}); remove it") from error

    return load

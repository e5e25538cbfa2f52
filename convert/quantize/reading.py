"""From what the user named as data to pieces of it."""

from __future__ import annotations

import zipfile
from collections.abc import Generator, Sequence
from pathlib import Path

from convert.errors import InputError
from convert.models.content import ZIP_ERRORS, bomb_problem, head
from convert.paths import exists, is_folder
from convert.quantize.functions import read_function, read_images
from convert.quantize.pieces import FORMS, Piece
from convert.quantize.tables import read_npy, read_npz, read_saved


def read(spec: str, preprocess: str | None, names: Sequence[str], trust: bool) -> Generator[Piece]:
    """The data ``spec``, piece by piece, from its beginning.

    Args:
        spec: a ``.npz``, a ``.npy``, a file of ``torch.save``, a folder of images, or ``file.py:function``.
        preprocess: ``file.py:function`` for a folder of images.
        names: inputs of the model, in order.
        trust: code in a file of ``torch.save`` may run.

    Raises:
        InputError: while it is read, where it holds something else.
    """
    path = Path(spec)
    if is_folder(path):
        if preprocess is None:
            raise InputError(f"{spec} is a folder; say how its images become inputs with --preprocess file.py:function")
        return read_images(path, preprocess, names, spec)
    if not exists(path):
        if ":" not in path.name:
            raise InputError(f"there is no file {spec}; give {FORMS}")
        return read_function(spec, names)
    try:
        start = head(path)
    except OSError as error:
        raise InputError(f"{spec} cannot be read ({error.strerror}); check its permissions") from error
    if not start:
        raise InputError(f"{spec} is empty; give {FORMS}")
    if start.startswith(b"\x93NUMPY"):
        return read_npy(path, names, spec)
    if start.startswith(b"PK") and _is_npz(path):
        return read_npz(path, names, spec)
    if start[:2] == b"PK" or start[:1] == b"\x80":
        return read_saved(path, names, spec, trust)
    raise InputError(f"{spec} holds no data (its first bytes are {start[:8]!r}); give {FORMS}")


def _is_npz(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            problem = bomb_problem(archive, path.stat().st_size)
            names = archive.namelist()
    except ZIP_ERRORS as error:
        raise InputError(f"{path} is a zip file that was cut short or damaged ({error}); copy it again") from error
    if problem:
        raise InputError(f"{path} is not read: {problem}")
    return all(name.endswith(".npy") for name in names)

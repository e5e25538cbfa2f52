"""Calling a class or function of the user's: ``nets.py:make`` or ``pkg.mod:make``."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from convert.errors import InputError


def module(where: str) -> ModuleType:
    """Import the file or module that a factory lies in; its folder comes first on the import path.

    Raises:
        InputError: it cannot be imported.
    """
    path = Path(where)
    folder, base, is_file = str(path.parent), path.name, path.is_file()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        return _import_file(where) if is_file else importlib.import_module(base)
    except SystemExit as error:
        raise InputError(f"{where} called sys.exit when it was imported; guard that with __name__") from error
    except Exception as error:
        what = where if is_file else f"the module {base} (looked in {folder} first)"
        raise InputError(f"{what} could not be imported: {one_line(error)}") from error


def find(where: str, name: str) -> Callable[..., Any]:
    """Import the object ``name`` of ``where``.

    Args:
        where: an absolute ``.py`` file, whose own folder comes first on the import path, or ``FOLDER/pkg.mod``: a
            module, with ``FOLDER`` first on the import path.
        name: a class or function in it; dots reach into a class.

    Raises:
        InputError: it cannot be imported, has no such name, or that is not callable.
    """
    found: Any = module(where)
    for part in name.split("."):
        if not hasattr(found, part):
            raise InputError(f"{where} has no {name}; it has {', '.join(_public(found)) or 'no public names'}")
        found = getattr(found, part)
    if not callable(found):
        raise InputError(f"{name} of {where} is a {type(found).__name__}; name a class or function without arguments")
    return found  # type: ignore[no-any-return]


def call(where: str, name: str) -> Any:
    """What the factory returns when it is called without arguments.

    Raises:
        InputError: as :func:`find`, or the factory itself failed.
    """
    factory = find(where, name)
    try:
        return factory()
    except Exception as error:
        raise InputError(f"{name} of {where} failed when called without arguments: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """The kind of an exception and the first line of its text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


def _import_file(where: str) -> ModuleType:
    """Import a file under its own name, so that other files beside it which import it get the same module."""
    stem = Path(where).stem
    for name in (stem, _module_name(stem)):
        if getattr(sys.modules.get(name), "__file__", None) == where:
            return sys.modules[name]
    name = _module_name(stem)
    spec = importlib.util.spec_from_file_location(name, where)
    if spec is None or spec.loader is None:
        raise ImportError(f"{where} is not a Python file")
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[name]
        raise
    return made


def _module_name(stem: str) -> str:
    """``stem`` itself, unless it is no identifier or taken: a file called torch.py must not hide torch."""
    taken = stem in sys.modules or stem in sys.stdlib_module_names
    return stem if stem.isidentifier() and not taken else f"_convert_user_{re.sub(r'[^0-9A-Za-z_]', '_', stem)}"


def _public(thing: Any) -> list[str]:
    """Names defined in a module or class itself, the first few."""
    names = [name for name, value in vars(thing).items() if name[0] != "_" and callable(value)]
    return names[:8]

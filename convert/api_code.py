"""Where a worker can import the code of a live module from, and which code it could import nowhere."""

from __future__ import annotations

import site
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from convert.toolchains import Environment, find

#: What every worker that loads a model has by other ways.
_GIVEN = ("__main__", "cloudpickle", "convert", "torch")


@dataclass(frozen=True)
class Code:
    """What a pickle's names need.

    Attributes:
        folders: absolute folders to put last on the worker's import path.
        lost: names of modules that cannot be imported by that, so that their code must go along by value.
    """

    folders: tuple[str, ...]
    lost: tuple[str, ...]


def code_for(names: Iterable[str]) -> Code:
    """Look where the caller itself has ``names`` (``module.attribute``, as a pickle has them) from."""
    environment = find("core")
    theirs = _top_names(environment.site_packages) if environment else set()
    used = {name: sys.modules[name] for name in dict.fromkeys(map(_module_of, names)) if name}
    folders = [str(folder) for folder in _own_path()]
    lost = []
    for name, module in used.items():
        top = name.partition(".")[0]
        home = _home(sys.modules.get(top, module))
        if home is not None and _is_library(home):
            folders += _borrowed(home, environment) if top not in theirs else []
        elif home is None or top in theirs or not _importable(name, module, [*folders, str(home)]):
            lost.append(name)
        else:
            folders.append(str(home))
    return Code(tuple(dict.fromkeys(folders)), tuple(lost))


def _module_of(name: str) -> str:
    """The module in ``pkg.mod.Outer.Inner``; empty for modules that need no thought."""
    module = name
    while module not in sys.modules:
        module, dot, _ = module.rpartition(".")
        if not dot:
            return ""
    top = module.partition(".")[0]
    return "" if top in _GIVEN or top in sys.stdlib_module_names else module


def _home(top: ModuleType) -> Path | None:
    """The folder that a top-level module or package lies in; None for one that was made in memory."""
    places = list(getattr(top, "__path__", ()))
    file = places[0] if places else getattr(top, "__file__", None)
    return None if file is None else Path(file).absolute().parent


def _own_path() -> list[Path]:
    """The caller's import path without the standard library and installed packages; the empty entry is the cwd."""
    folders = [Path(entry).absolute() for entry in sys.path]
    return [folder for folder in folders if folder.is_dir() and not _is_library(folder)]


def _is_library(folder: Path) -> bool:
    paths = sysconfig.get_paths()
    known = [*site.getsitepackages(), site.getusersitepackages(), *(paths[key] for key in ("stdlib", "purelib"))]
    named = bool({"site-packages", "dist-packages"} & {*folder.parts})
    return named or any(folder.is_relative_to(path) for path in known)


def _borrowed(home: Path, environment: Environment | None) -> list[str]:
    """The caller's installed packages, for one that the worker's environment lacks; of the same Python only."""
    if environment is None or environment.site_packages.parent.name != home.parent.name:
        return []
    return [str(home)]


def _top_names(packages: Path) -> set[str]:
    return {entry.name.partition(".")[0] for entry in packages.iterdir()} if packages.is_dir() else set()


def _importable(name: str, module: ModuleType, path: Sequence[str]) -> bool:
    """Whether a fresh interpreter with ``path`` finds for ``name`` the file that the caller has it from."""
    places: Sequence[str] | None = path
    spec = None
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        spec = None if places is None else PathFinder.find_spec(".".join(parts[:count]), places)
        if spec is None:
            return False
        places = spec.submodule_search_locations
    file = getattr(module, "__file__", None)
    return spec is not None and spec.origin is not None and file is not None and Path(spec.origin).samefile(file)

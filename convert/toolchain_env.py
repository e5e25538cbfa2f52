"""What a toolchain is on disk: its environment, the folder it lives in, and what can be read there without running it.

Nothing here starts a process: the command line asks for every toolchain each time that it starts.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import site
import sys
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import platformdirs

_CONSTRAINTS = Path(__file__).resolve().parent / "constraints"
_MARKER = "complete"
_DIST_INFO = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)\.dist-info")

Origin = Literal["variable", "current", "cache"]


@dataclass(frozen=True)
class Toolchain:
    """A set of packages that live together in one environment.

    Attributes:
        name: as it stands on the command line, in ``constraints/NAME.txt`` and in a route.
        purpose: half a sentence for the list of toolchains.
        requirements: what is asked for; the exact versions are in the constraint file.
        shown: the distributions whose versions matter to a reader, and without which the toolchain is not there.
        accepts: what the running interpreter must have to serve as this toolchain (the extra of the same name);
            empty where it never may, since the pins conflict with the other packages.
        optional: whether the tool does its main job without it.
        system_packages: Debian packages that lie beside the packages of Python, for arm64 unless they say otherwise;
            with any, ``convert/emulation_install.py`` ends the installation.
        foreign_wheels: name of the constraint file with the wheels for arm64.
        foreign_parts: files that are wanted of such a wheel; one with none of these is wanted whole.
        instead: a shown distribution, and what the running interpreter may have instead of it (the extra ``gpu``).
    """

    name: str
    purpose: str
    requirements: tuple[str, ...]
    shown: tuple[str, ...]
    accepts: tuple[str, ...] = ()
    optional: bool = False
    system_packages: tuple[str, ...] = ()
    foreign_wheels: str = ""
    foreign_parts: tuple[str, ...] = ()
    instead: tuple[tuple[str, str], ...] = ()

    @property
    def known(self) -> tuple[str, ...]:
        """The shown distributions, and those that may be there instead of one of them."""
        return (*self.shown, *(name_of(requirement) for _, requirement in self.instead))

    def lacking(self, found: Container[str]) -> tuple[str, ...]:
        """The shown distributions that are not in ``found``, nor what may be there instead of them."""
        others = {name: name_of(requirement) for name, requirement in self.instead}
        return tuple(name for name in self.shown if name not in found and others.get(name, name) not in found)


@dataclass(frozen=True)
class Environment:
    """A toolchain that is there.

    Attributes:
        name: of the toolchain.
        python: interpreter to run workers with; not resolved, since a virtual environment is known by its link.
        site_packages: folder of the packages, for a toolchain that borrows them.
        origin: how it was found.
        versions: the shown distributions that are installed, with their versions.
    """

    name: str
    python: Path
    site_packages: Path
    origin: Origin
    versions: dict[str, str]


def name_of(requirement: str) -> str:
    """The distribution of a requirement such as ``onnx>=1.2``."""
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]


def cache_root() -> Path:
    """The folder for everything that can be made again; the variable ``CONVERT_CACHE`` moves it."""
    moved = os.environ.get("CONVERT_CACHE")
    if moved:
        return Path(moved).expanduser().absolute()
    return platformdirs.user_cache_path("convert", appauthor=False)


def home(name: str) -> Path:
    """The folder that holds every environment ever made for the toolchain ``name``, and its lock."""
    return cache_root() / "toolchains" / name


def log_file(name: str) -> Path:
    """Where the output of the last installation of ``name`` is."""
    return cache_root() / "logs" / f"toolchain-{name}.log"


def constraints_file(name: str) -> Path:
    """The file with the exact version of every package of ``name``, down to the last one."""
    return _CONSTRAINTS / f"{name}.txt"


def pins(name: str) -> dict[str, str]:
    """The exact versions of ``name`` by normalised distribution name."""
    lines = constraints_file(name).read_text(encoding="utf-8").splitlines()
    return {normalise(dist): version for dist, _, version in (line.partition("==") for line in lines if line)}


def normalise(distribution: str) -> str:
    """One spelling for ``tf_keras``, ``tf-keras`` and ``TF.Keras``."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def fingerprint(toolchain: Toolchain) -> str:
    """Twelve hex digits that change with a pin, what is asked for, the Python version or the kind of machine."""
    digest = hashlib.sha256()
    for part in (
        constraints_file(toolchain.name).read_text(encoding="utf-8"),
        *toolchain.requirements,
        sys.implementation.cache_tag or sys.implementation.name,
        sys.platform,
        platform.machine(),
        *toolchain.system_packages,
        *toolchain.foreign_parts,
        *([constraints_file(toolchain.foreign_wheels).read_text(encoding="utf-8")] if toolchain.foreign_wheels else []),
    ):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:12]


def environment_folders(toolchain: Toolchain) -> list[Path]:
    """Folders of environments with today's pins, finished or not."""
    return sorted(home(toolchain.name).glob(f"{fingerprint(toolchain)}-*"))


def is_complete(folder: Path) -> bool:
    """Whether the installation into ``folder`` came to its end."""
    return (folder / _MARKER).is_file()


def mark_complete(folder: Path) -> None:
    """Say that the installation into ``folder`` came to its end; the last thing that it does."""
    (folder / _MARKER).touch()


def unmark(folder: Path) -> None:
    """Take the mark away: the first thing to do before the rest is removed."""
    (folder / _MARKER).unlink(missing_ok=True)


def interpreter(folder: Path) -> Path:
    """The interpreter of the virtual environment in ``folder``."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def site_packages(python: Path) -> Path | None:
    """Where the packages of ``python`` are, from the folders around it alone; None when it cannot be told."""
    prefix = python.absolute().parent.parent
    candidates = [
        path
        for pattern in ("lib/python3*/site-packages", "lib/python3*/dist-packages", "Lib/site-packages")
        for path in sorted(prefix.glob(pattern))
        if path.is_dir()
    ]
    exact = [path for path in candidates if path.parent.name == _lib_name(python)]
    if exact:
        return exact[0]
    return candidates[0] if len(candidates) == 1 else None


def _lib_name(python: Path) -> str:
    """``python3.12``, from the settings of the virtual environment or the name of the interpreter itself."""
    settings = python.absolute().parent.parent / "pyvenv.cfg"
    text = settings.read_text(encoding="utf-8", errors="replace") if settings.is_file() else ""
    found = re.search(r"^version(?:_info)?\s*=\s*(\d+\.\d+)", text, re.MULTILINE)
    return f"python{found.group(1)}" if found else python.resolve().name


def installed(folders: Iterable[Path], distributions: tuple[str, ...]) -> dict[str, tuple[str, Path]]:
    """Version and folder of those of ``distributions`` that are installed in ``folders``; the first folder wins.

    Only the names of the ``*.dist-info`` folders are read: a fraction of what ``importlib.metadata`` costs.
    """
    wanted = {normalise(name): name for name in distributions}
    found: dict[str, tuple[str, Path]] = {}
    for folder in folders:
        for entry in sorted(folder.glob("*.dist-info")):
            match = _DIST_INFO.fullmatch(entry.name)
            name = wanted.get(normalise(match["name"])) if match else None
            # A package that was removed only in part leaves its folder behind, without this file.
            if match and name and name not in found and (entry / "METADATA").is_file():
                found[name] = (match["version"], folder)
    return {name: found[name] for name in distributions if name in found}


def own_folders() -> list[Path]:
    """Where the running interpreter's packages are, without what ``PYTHONPATH`` or the user's folder add."""
    return [Path(folder) for folder in site.getsitepackages() if Path(folder).is_dir()]


def read(toolchain: Toolchain, python: Path, packages: Path, origin: Origin) -> Environment:
    """Describe the environment of ``python`` by what is installed in its folder ``packages``."""
    versions = {name: version for name, (version, _) in installed([packages], toolchain.known).items()}
    return Environment(toolchain.name, python, packages, origin, versions)


def cached(toolchain: Toolchain) -> Environment | None:
    """The finished environment of ``toolchain`` in the cache folder, made with today's pins; None without one."""
    for folder in environment_folders(toolchain):
        python = interpreter(folder)
        packages = site_packages(python)
        # The interpreter is a link that dangles once the Python it was made with is gone.
        if is_complete(folder) and python.is_file() and packages is not None:
            environment = read(toolchain, python, packages, "cache")
            if not toolchain.lacking(environment.versions):
                return environment
    return None

"""A recipe as it lies in its folder; nothing in it is believed before its hash is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .building import Profiles
from .settings import EngineSettings, settings_from

VERSION = 2
RECIPE = "recipe.json"
_CHUNK = 1 << 20


class BadRecipe(ValueError):
    """The folder holds no recipe that can be used; one sentence."""


@dataclass(frozen=True)
class Recipe:
    """An opened recipe.

    Attributes:
        folder: where it lies.
        said: ``recipe.json``.
        sha256: of that file, which holds the hashes of all others.
    """

    folder: Path
    said: dict[str, Any]
    sha256: str

    @property
    def onnx(self) -> Path:
        """The graph, precision written in."""
        return self.folder / str(self.said["onnx"])

    @property
    def profiles(self) -> Profiles:
        """Ranges of the dynamic inputs."""
        return dict(self.said["profiles"])

    @property
    def settings(self) -> EngineSettings:
        """What the builder is told."""
        return settings_from(self.said.get("settings", {}))

    @property
    def cases(self) -> list[dict[str, Any]]:
        """``name``, ``file``, ``dims`` and ``limits`` of every case."""
        return list(self.said["cases"])

    @property
    def latency_case(self) -> str:
        """Name of the case that is timed."""
        return str(self.said["latency_case"])

    def feeds(self, golden: Any) -> dict[str, np.ndarray[Any, Any]]:
        """The inputs of an opened case."""
        return {name: np.require(golden[f"in:{name}"], requirements=["C"]) for name in self.said["inputs"]}

    @contextmanager
    def case(self, name: str) -> Iterator[Any]:
        """The arrays of a case: ``in:NAME``, ``out:NAME`` and perhaps ``truth:NAME``."""
        case = next(case for case in self.cases if case["name"] == name)
        with np.load(self.folder / "golden" / case["file"], allow_pickle=False) as golden:
            yield golden


def open_recipe(folder: Path) -> Recipe:
    """Read ``recipe.json`` and hold every file that it names against its hash.

    Raises:
        BadRecipe: there is none, it is of another version, or a file is missing or was changed.
    """
    file = folder / RECIPE
    try:
        content = file.read_bytes()
        said = json.loads(content)
        version = said["recipe_version"]
        hashes = dict(said["sha256"])
    except OSError:
        raise BadRecipe(f"{folder} holds no recipe (there is no {RECIPE}); give the folder that convert made") from None
    except (ValueError, KeyError, TypeError):
        raise BadRecipe(f"{file} is no recipe that convert wrote; copy the folder again") from None
    if version != VERSION:
        raise BadRecipe(f"{file} is of version {version}, and {VERSION} is read here; make the recipe anew")
    for name, wanted in hashes.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise BadRecipe(f"{file} names {name}, which lies outside of its folder; do not use it")
        if not path.is_file() or sha256_of(path) != wanted:
            state = "was changed" if path.is_file() else "is missing"
            raise BadRecipe(f"{path} {state} since the recipe was made; copy the folder again")
    named = {said["onnx"], *(f"golden/{case['file']}" for case in said["cases"])}
    if not named <= hashes.keys():
        raise BadRecipe(f"{file} names {min(named - hashes.keys())} without its hash; make the recipe anew")
    return Recipe(folder, said, hashlib.sha256(content).hexdigest())


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()

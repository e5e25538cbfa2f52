"""``result.json`` of a recipe that was built on another host: read, and believed only as far as it can be checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convert.errors import InputError
from convert.outdir import sha256_of
from convert.records_engine import EngineSummary, Gpu
from convert.serial import from_plain, from_plain_or_none

RESULT = "result.json"
VERSION = 1
_STATUSES = ("passed", "failed", "built")


@dataclass(frozen=True)
class EngineResult:
    """What a GPU host made of a recipe.

    Attributes:
        folder: where the result lies.
        recipe: SHA-256 of the recipe that it was made from.
        status: ``passed`` or ``failed``, by that host's own word.
        stage, reason: where and why it failed.
        gpu: None where the host did not come so far.
        engine: file name of the engine; empty where there is none.
        latency: times in milliseconds by name; empty where there are none.
        outputs: case -> file with what the engine gave.
        seconds: of building and checking together.
    """

    folder: Path
    recipe: str
    status: str
    stage: str
    reason: str
    gpu: Gpu | None
    engine: str
    summary: EngineSummary | None
    latency: dict[str, Any]
    outputs: dict[str, str]
    versions: dict[str, str]
    seconds: float


def find_results(place: Path) -> list[Path]:
    """Folders with a result: ``place`` itself, or what lies below it.

    Raises:
        InputError: there is none.
    """
    if (place / RESULT).is_file():
        return [place]
    found = sorted(file.parent for file in place.rglob(RESULT)) if place.is_dir() else []
    if not found:
        raise InputError(
            f"{place} holds no result (there is no {RESULT}); give the folder that build_engine.py or "
            "`convert build-recipe` wrote into"
        )
    return found


def read_result(folder: Path) -> EngineResult:
    """Read the result in ``folder`` and hold its files against its hashes.

    Raises:
        InputError: it is not what a recipe writes, nothing was run, or a file is missing or was changed.
    """
    file = folder / RESULT
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        if said["result_version"] != VERSION:
            raise InputError(f"{file} is of version {said['result_version']}, and {VERSION} is read here")
        result = _read(folder, said)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{file} is not what a recipe writes ({type(error).__name__}); copy the folder again"
        ) from error
    if result.status == "built":
        raise InputError(f"{file} says that nothing was run ({result.reason}); build the recipe on a GPU host")
    if result.stage == "toolchain":
        raise InputError(f"{file} says that the engine could not be built there: {result.reason}")
    if result.status == "passed" and (result.gpu is None or not result.engine):
        raise InputError(f"{file} says passed and names no {'engine' if result.gpu else 'GPU'}; build the recipe again")
    return result


def _read(folder: Path, said: Mapping[str, Any]) -> EngineResult:
    if said["status"] not in _STATUSES:
        raise ValueError
    engine = said["engine"]
    outputs = {str(case): _unchanged(folder, one) for case, one in said["outputs"].items()}
    return EngineResult(
        folder=folder,
        recipe=str(said["recipe_sha256"]),
        status=said["status"],
        stage=str(said["stage"]),
        reason=" ".join(str(said["reason"]).split()),
        gpu=from_plain_or_none(Gpu, said["gpu"]),
        engine="" if engine is None else _unchanged(folder, engine),
        summary=from_plain_or_none(EngineSummary, said["summary"]),
        latency=from_plain(dict[str, Any], said["latency"] or {}),
        outputs=outputs,
        versions=from_plain(dict[str, str], said["versions"]),
        seconds=sum(from_plain(dict[str, float], said["seconds"]).values()),
    )


def _unchanged(folder: Path, one: Mapping[str, Any]) -> str:
    """The name of a file that is what its hash says."""
    name = str(one["file"])
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{folder / RESULT} names {name}, which lies outside of its folder; do not use it")
    if not path.is_file() or sha256_of(path) != one["sha256"]:
        state = "was changed" if path.is_file() else "is missing"
        raise InputError(f"{path} {state} since {RESULT} was written; copy the folder again")
    return name

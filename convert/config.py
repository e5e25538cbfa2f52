"""``convert.toml``: options of ``convert run`` in a file, beside the model or named with ``--config``."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convert.config_keys import FORBIDDEN, KEYS, REFUSED
from convert.errors import InputError
from convert.paths import exists, is_file
from convert.texts import reason, shown

NAME = "convert.toml"


@dataclass(frozen=True)
class Used:
    """A file whose values were used: where it is, and which of its keys no option has overruled."""

    path: str
    keys: tuple[str, ...]
    code: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """A line for the progress: what was taken, and which code of the user's is run because of it."""
        taken = f"{', '.join(self.keys) or 'nothing, since options say all that it says'} taken from {self.path}"
        return taken + (f"; it names code that is run: {', '.join(self.code)}" if self.code else "")


def fill(model: str, given: dict[str, Any], file: Path | None, said: Callable[[str], bool]) -> Used | None:
    """Put the values of ``file``, or of the ``convert.toml`` beside ``model``, where no option was given.

    Args:
        model: what the user asked to convert.
        given: values by parameter of ``convert run``; changed in place.
        file: ``--config``; None for the one beside the model.
        said: whether the user gave a parameter as an option.

    Returns:
        What was used; None where there is no such file.

    Raises:
        InputError: the file cannot be read, has a key or value that is not allowed, or names code to run or
            devices although only the model file beside it was named.
    """
    path = file or beside(model)
    if path is None:
        return None
    values = read(path)
    taken = tuple(key for key in values if not said(KEYS[key].parameter))
    code = _code(values, taken)
    devices = values["device"] if "device" in taken else ()
    if file is None and is_file(model):
        # Whoever names file.py:factory runs code of that folder already; a weights file may come from anywhere.
        _require_trust(path, "code that would be run", code)
        _require_trust(path, "devices that artifacts would be sent to", devices)
    for key in taken:
        given[KEYS[key].parameter] = values[key]
    return Used(str(path), taken, code)


def _require_trust(path: Path, what: str, names: tuple[str, ...]) -> None:
    if names:
        raise InputError(
            f"{path} names {what} ({', '.join(names)}), and it may have come with the model; "
            f"say --config {path} if you trust it, or give these options yourself"
        )


def beside(model: str) -> Path | None:
    """The ``convert.toml`` in the folder of a model file, or of the file of ``file.py:factory``; None if there is none.

    A factory in a module has no such file: its package may be anywhere.
    """
    for text in (model, model.rpartition(":")[0]):
        if text and is_file(text):
            path = Path(text).absolute().parent / NAME
            return path if is_file(path) else None
    return None


def read(path: Path) -> dict[str, Any]:
    """The values in a file by key, each as its option would give it; paths in it are relative to its folder.

    Raises:
        InputError: it cannot be read, or names the first key that is not allowed or has a value that is not.
    """
    folder = path.absolute().parent
    return {key: _value(path, key, value, folder) for key, value in _load(path).items()}


def explained(error: InputError, used: Used | None) -> InputError:
    """``error`` with the name of the file, where it complains about an option whose value is from there."""
    if used is None or not any(f"--{key} " in str(error) for key in used.keys):
        return error
    return InputError(f"{error} (from {used.path})")


def _load(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            return tomllib.load(stream)
    except ValueError as error:  # of tomllib, of the decoder, or of int for a number with thousands of digits
        raise InputError(f'{path} is no TOML file ({reason(error)}); write lines such as target = "onnx"') from error
    except RecursionError as error:
        raise InputError(f'{path} is nested too deeply; write lines such as target = "onnx"') from error
    except OSError as error:
        raise InputError(f"--config {path} cannot be read ({error.strerror}); give a file such as {NAME}") from error


def _value(path: Path, key: str, value: Any, folder: Path) -> Any:
    if key in FORBIDDEN:
        raise InputError(f"{path} has {_shown_key(key)} = {shown(value)}, which {REFUSED}")
    if key not in KEYS:
        raise InputError(
            f"{path} has {_shown_key(key)} = {shown(value)}, but there is no such key; allowed are {', '.join(KEYS)}"
        )
    try:
        return KEYS[key].read(value, folder)
    except ValueError as error:
        text = f"{path} has {_shown_key(key)} = {shown(value)}, but it must be {KEYS[key].allowed}"
        raise InputError(f"{text} ({reason(error)})" if str(error) else text) from error


def _shown_key(key: str) -> str:
    return key if key.isprintable() and key else shown(key)


def _code(values: dict[str, Any], taken: tuple[str, ...]) -> tuple[str, ...]:
    """Files and folders with code that a run imports because the file says so."""
    named = [
        values[key] for key in ("model", "samples", "calibration", "evaluation", "preprocess", "metric") if key in taken
    ]
    found = [text for text in named if ":" in text and not exists(text)]
    return (*found, *(values["code"] if "code" in taken else ()))

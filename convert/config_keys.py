"""What ``convert.toml`` may hold: each key with what its value may be, and how that is read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convert.constants import format_constant
from convert.models.detect import lies_in_folder
from convert.paths import exists
from convert.providers import PROVIDERS

Read = Callable[[Any, Path], Any]  # no statement of its own: an older Python on a device reads this file too

FORBIDDEN = ("trust-pickle", "trust_pickle")
REFUSED = (
    "cannot be said in a file: that may come with the model, and only you can decide to run code that is in a model; "
    "take it out and write --trust-pickle on the command line"
)


@dataclass(frozen=True)
class Key:
    """A key of the file.

    Attributes:
        parameter: the parameter of ``convert run`` that it stands for.
        allowed: what its value may be, in words.
        read: turns the value and the folder of the file into what the option would give; ``ValueError`` if it is not
            allowed, with a text where ``allowed`` does not say why.
    """

    parameter: str
    allowed: str
    read: Read


def _text(value: Any, folder: Path) -> str:
    del folder
    if not isinstance(value, str) or not value:
        raise ValueError
    if "\0" in value:  # a command line cannot hold one, and no path may
        raise ValueError("and without the character NUL")
    return value


def _texts(value: Any, folder: Path) -> tuple[str, ...]:
    return tuple(_text(item, folder) for item in (value if isinstance(value, list) else [value]))


def _names(value: Any, folder: Path) -> str:
    return ",".join(_texts(value, folder))


def _flag(value: Any, folder: Path) -> bool:
    del folder
    if not isinstance(value, bool):
        raise ValueError
    return value


def _integer(least: int) -> Read:
    def read(value: Any, folder: Path) -> int:
        del folder
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= sys.maxsize:
            raise ValueError
        return value

    return read


def _seconds(zero: bool) -> Read:
    def read(value: Any, folder: Path) -> float:
        del folder
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 <= value <= sys.float_info.max or (value == 0 and not zero):  # NaN is not, either
            raise ValueError
        return float(value)

    return read


def _number(least: float, most: float = sys.float_info.max) -> Read:
    def read(value: Any, folder: Path) -> float:
        del folder
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not least <= value <= most:
            raise ValueError
        return float(value)

    return read


def _choice(*names: str) -> Read:
    def read(value: Any, folder: Path) -> str:
        text = _text(value, folder)
        if text not in names:
            raise ValueError
        return text

    return read


def _memory(value: Any, folder: Path) -> str:
    return str(_integer(1)(value, folder)) if isinstance(value, int) else _text(value, folder)


def _path(value: Any, folder: Path) -> Path:
    return folder / _text(value, folder)


def _folders(value: Any, folder: Path) -> tuple[str, ...]:
    return tuple(str(folder / text) for text in _texts(value, folder))


def _file_or_factory(value: Any, folder: Path) -> str:
    """A file, ``file.py:name`` or ``pkg.mod:name`` below ``folder``; a module that is not there is an installed one."""
    text = _text(value, folder)
    where, colon, name = text.rpartition(":")
    if not colon or exists(folder / text):
        return str(folder / text)
    in_folder = where.endswith(".py") or lies_in_folder(folder / where)
    return f"{folder / where}:{name}" if in_folder else text


def _data(value: Any, folder: Path) -> str:
    return "random" if value == "random" else _file_or_factory(value, folder)


def _file_or_none(value: Any, folder: Path) -> str:
    return "none" if value == "none" else str(folder / _text(value, folder))


def _constants(value: Any, folder: Path) -> tuple[str, ...]:
    """A table of values by name, or texts as on the command line."""
    if not isinstance(value, dict):
        return _texts(value, folder)
    try:
        return tuple(format_constant(name, item) for name, item in value.items())
    except ValueError as error:
        raise ValueError(str(error)) from error


_MANY = 'a string such as "{0}" or a list of such'
_COUNT = "a whole number of {0} or more"

KEYS: dict[str, Key] = {
    "target": Key("target", 'names of runtimes, as "onnx,tflite" or ["onnx", "tflite"]', _names),
    "precision": Key("precision", 'names of precisions, as "float32,float16" or ["float32", "float16"]', _names),
    "input": Key("inputs", _MANY.format("x=float32[N,3,224,224]"), _texts),
    "dim": Key("dims", _MANY.format("N=1..4..16"), _texts),
    "samples": Key("samples", 'a file or function, as "images.npz" or "data.py:batches"', _file_or_factory),
    "model": Key("factory", 'a factory, as "nets.py:Net" or "package.module:make"', _file_or_factory),
    "constant": Key("constants", 'a table of values by name, a string such as "steps=4" or a list of such', _constants),
    "code": Key("code", 'a folder, as "src", or a list of such', _folders),
    "opset": Key("opset", _COUNT.format(13), _integer(13)),
    "out": Key("out", 'a folder, as "build"', _path),
    "timeout": Key("timeout", "a number of seconds above 0", _seconds(zero=False)),
    "memory": Key("memory", 'a size, as "8G", or a number of bytes', _memory),
    "threads": Key("threads", _COUNT.format(1), _integer(1)),
    "jobs": Key("jobs", _COUNT.format(1), _integer(1)),
    "bench-seconds": Key("bench_seconds", "a number of seconds of 0 or more", _seconds(zero=True)),
    "calibration": Key("calibration", 'a file, folder or function, as "images.npz", or the word "random"', _data),
    "evaluation": Key("evaluation", 'a file, folder or function, as "held_out.npz"', _file_or_factory),
    "preprocess": Key("preprocess", 'a function, as "data.py:image"', _file_or_factory),
    "calibration-samples": Key("calibration_samples", _COUNT.format(1), _integer(1)),
    "range": Key("range", '"minmax", "percentile" or "mse"', _choice("minmax", "percentile", "mse")),
    "percentile": Key("percentile", "a number above 50 and up to 100", _number(50.0001, 100)),
    "io-type": Key("io_type", '"float" or "int8"', _choice("float", "int8")),
    "require-full-integer": Key("require_full_integer", "true or false", _flag),
    "auto-mixed": Key("auto_mixed", "true or false", _flag),
    "min-sqnr": Key("min_sqnr", "a number of 0 or more", _number(0)),
    "metric": Key("metric", 'a function, as "score.py:accuracy"', _file_or_factory),
    "max-drop": Key("max_drop", "a number of 0 or more", _number(0)),
    "platform": Key("platform", 'platforms, as "linux/arm64" or a list of such', _texts),
    "cpu": Key("cpu", 'CPUs, as "cortex-a72" or a list of such', _texts),
    "device": Key("device", 'devices, as "ssh://user@host", "adb:SERIAL" or a list of such', _texts),
    "gpu": Key("gpu", 'compute capabilities, as "sm86,sm89" or a list of such', _texts),
    "workspace": Key("workspace", 'a size, as "2G", or a number of bytes', _memory),
    "hardware-compatible": Key(
        "hardware_compatible",
        '"none", "ampere-plus" or "same-compute-capability"',
        _choice("none", "ampere-plus", "same-compute-capability"),
    ),
    "engine-flag": Key("engine_flags", 'names of flags, as "refit" or a list of such', _texts),
    "provider": Key("provider", '"cpu", "cuda" or "tensorrt"', _choice(*PROVIDERS)),
    "max-cpu-ops": Key("max_cpu_ops", 'a percentage, as "2.5%"', _text),
    "tune": Key("tune", 'a number of trials, as 500, or of minutes, as "10m"', _memory),
    "tuning-db": Key("tuning_db", 'a file, as "pi.json", or the word "none"', _file_or_none),
    "allow-deferred": Key("allow_deferred", "true or false", _flag),
}

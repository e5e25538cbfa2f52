"""Frozen dataclasses to JSON and back without loss.

The records travel between environments that share nothing but the standard library, so this cannot lean on a
validation library: the worker of a toolchain has only its own SDK.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import os
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_plain(value: Any) -> Any:
    """Turn a record (dataclass, tuple, mapping or scalar) into what ``json`` can write.

    NaN and infinity become strings, since strict JSON has no word for them.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


def from_plain(kind: type[T], data: Any) -> T:  # noqa: UP047  (a device may have Python 3.11)
    """Build a record of type ``kind`` from what :func:`to_plain` gave; raises ``TypeError`` on a misfit."""
    return typing.cast(T, _build(kind, data))


def from_plain_or_none(kind: type[T], data: Any) -> T | None:  # noqa: UP047
    """The same, where None stays None."""
    return None if data is None else from_plain(kind, data)


def _build(kind: Any, data: Any) -> Any:
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(data, Mapping):
            raise TypeError(f"expected the fields of {kind.__name__}, got {data!r}")
        hints = typing.get_type_hints(kind)
        unknown = set(data) - set(hints)
        if unknown:
            raise TypeError(f"{kind.__name__} has no field {sorted(unknown)}")
        return kind(**{name: _build(hints[name], data[name]) for name in data})
    if origin in (types.UnionType, typing.Union):
        return _build_union(typing.get_args(kind), data)
    if origin is tuple and isinstance(data, list | tuple):
        return _tuple(typing.get_args(kind), data)
    if origin in (dict, Mapping):
        return {key: _build(typing.get_args(kind)[1], item) for key, item in data.items()}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _enum(kind, data)
    if kind is float:
        return _float(data)
    if kind is Any or (isinstance(kind, type) and isinstance(data, kind)):
        return data
    raise TypeError(f"expected {kind}, got {data!r}")


def _tuple(kinds: tuple[Any, ...], data: list[Any] | tuple[Any, ...]) -> tuple[Any, ...]:
    """Of any length where the type ends in an ellipsis, else with a type for each place."""
    if kinds[-1] is Ellipsis:
        return tuple(_build(kinds[0], item) for item in data)
    if len(kinds) != len(data):
        raise TypeError(f"expected {len(kinds)} values, got {data!r}")
    return tuple(_build(kind, item) for kind, item in zip(kinds, data, strict=True))


def _enum(kind: type[enum.Enum], data: Any) -> enum.Enum:
    try:
        return kind(data)
    except ValueError as error:
        raise TypeError(str(error)) from None


def _float(data: Any) -> float:
    if isinstance(data, str) and data not in _NON_FINITE:
        raise TypeError(f"expected a number, got {data!r}")
    return _NON_FINITE[data] if isinstance(data, str) else float(data)


def _build_union(choices: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in choices:
        return None
    for choice in choices:
        try:
            if choice is not type(None):
                return _build(choice, data)
        except (TypeError, KeyError, ValueError):
            continue
    raise TypeError(f"{data!r} is none of {choices}")


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` whole or not at all: a temporary file beside ``path``, then a rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(to_plain(value), indent=2, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def read_json(kind: type[T], path: Path) -> T:  # noqa: UP047
    """Read one record of type ``kind`` from ``path``."""
    return from_plain(kind, json.loads(path.read_text(encoding="utf-8")))

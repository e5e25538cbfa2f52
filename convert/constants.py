"""Read ``--constant``: arguments of ``forward`` that are no tensors, fixed for good."""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Iterable
from typing import Any

from convert.errors import InputError

_NAME = "--constant {text!r} is not of the form 'name=value'; write for example 'steps=4' or 'mode=bilinear'"


def parse_constant(text: str) -> tuple[str, Any]:
    """Read one ``--constant``, such as ``steps=4``, ``scale=0.5``, ``causal=True``, ``mask=None`` or ``mode=bilinear``.

    The value is a Python literal (also a tuple or list of such); what is no literal is a string.

    Raises:
        InputError: the text is not of that form, or the literal is of another kind.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise InputError(_NAME.format(text=text))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            found = ast.literal_eval(value.strip())
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return name.strip(), value
    if not _is_allowed(found):
        raise InputError(
            f"--constant {text!r} is a {type(found).__name__}; allowed are int, float, bool, str, None and tuples or "
            "lists of these"
        )
    return name.strip(), found


def parse_constants(texts: Iterable[str]) -> dict[str, Any]:
    """Values by name, in the order given.

    Raises:
        InputError: as :func:`parse_constant`, or a name is given twice.
    """
    values: dict[str, Any] = {}
    for name, value in map(parse_constant, texts):
        if name in values:
            raise InputError(f"--constant is given twice for {name!r}; give each name once")
        values[name] = value
    return values


def format_constant(name: str, value: Any) -> str:
    """The ``--constant`` text that :func:`parse_constant` reads back as ``value``.

    Raises:
        ValueError: ``name`` is no name, or ``value`` cannot be written so: NaN, or a type that is not allowed.
    """
    if not name.isidentifier():
        raise ValueError(f"{name!r} is no name of an argument")
    return f"{name}={_literal(value)}"


def _literal(value: Any) -> str:
    if not _is_allowed(value) or (isinstance(value, float) and math.isnan(value)):
        raise ValueError(f"{value!r} cannot be written as a constant")
    if isinstance(value, float) and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"  # Python has no other literal for infinity
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, tuple):
        return f"({''.join(f'{_literal(item)}, ' for item in value)})"
    return repr(value)


def _is_allowed(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_allowed, value))
    return value is None or isinstance(value, bool | int | float | str)

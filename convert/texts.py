"""Text from users and files, made fit for one line of an error message."""

from __future__ import annotations

import unicodedata
from typing import Any

_MOST_SHOWN = 200


def one_line(text: str) -> str:
    """``text`` without line ends and other control characters, which appear as escapes instead."""
    return "".join(_escaped(letter) if _is_control(letter) else letter for letter in text)


def shown(value: Any) -> str:
    """``repr(value)``, cut where it is long; works for integers of any size, too."""
    try:
        text = repr(value)
    except ValueError:  # an integer with more digits than Python is willing to print
        text = "a number with thousands of digits"
    return cut(text)


def cut(text: str, most: int = _MOST_SHOWN) -> str:
    """``text``, at most ``most`` characters long, with dots where something is left out."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def reason(error: Exception) -> str:
    """What ``error`` says, without advice on how to change this program."""
    text = str(error)
    return "a number has thousands of digits" if "set_int_max_str_digits" in text else text


def _is_control(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")

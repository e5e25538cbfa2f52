"""Types of options that click does not have."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click


class Count(click.IntRange):
    """A whole number in range."""

    name = "whole number"


class Seconds(click.FloatRange):
    """A number of seconds: in range and finite."""

    name = "number of seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the number; a usage error if it is none, or NaN or infinite."""
        seconds = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is not a finite number of seconds.", param, ctx)
        return seconds


class Number(click.FloatRange):
    """A number: in range and finite."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the number; a usage error if it is none, or NaN or infinite."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class AnyPath(click.Path):
    """A path, there or not, as a ``pathlib.Path``; the empty text is none, though pathlib takes it for the folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the path; a usage error if it is empty."""
        if value == "":
            self.fail("'' is no path.", param, ctx)
        return super().convert(value, param, ctx)

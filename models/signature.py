"""The parameters of ``forward`` that a caller must give."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from convert.errors import InputError
from convert.models.load import Loaded

_NO_TENSORS = ("int", "float", "bool", "str", "number")


@dataclass(frozen=True)
class Required:
    """A parameter without default; ``kind`` is what it is said to be, in words, and empty if nothing is said."""

    name: str
    kind: str


def tensors_wanted(loaded: Loaded) -> tuple[str, ...]:
    """Names of the tensors that ``forward`` must be given; ``x`` where it takes anything (``*args``).

    Raises:
        InputError: it must also be given something else, which no constant fixes yet.
    """
    wanted = [item for item in _required(loaded) if item.name not in loaded.constants]
    for item in wanted:
        if item.kind in _NO_TENSORS:
            raise InputError(
                f"forward needs {item.name}, which is no tensor but of the type {item.kind}; fix it with --constant "
                f"{item.name}=VALUE"
            )
    return tuple(item.name for item in wanted)


def _required(loaded: Loaded) -> list[Required]:
    if loaded.script:
        arguments = loaded.module.forward.schema.arguments[1:]
        return [Required(item.name, str(item.type)) for item in arguments if not item.has_default_value()]
    found = inspect.signature(loaded.module.forward).parameters.values()
    named = [item for item in found if item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)]
    required = [Required(item.name, _kind(item.annotation)) for item in named if item.default is item.empty]
    anything = any(item.kind is item.VAR_POSITIONAL for item in found)
    return required or ([Required("x", "")] if anything and not named else [])


def _kind(annotation: object) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))

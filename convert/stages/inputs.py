"""Settle what goes into the source: said by the user, by the file, by samples, or found by trying."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from convert.errors import InputError
from convert.models.load import Loaded
from convert.models.probe import NothingFound, find_inputs
from convert.models.samples import infer_specs
from convert.records import InputSpec
from convert.specs import BFLOAT16

if TYPE_CHECKING:
    from convert.models.samples import Samples


@dataclass(frozen=True)
class Settled:
    """The inputs.

    Attributes:
        notes: what was assumed or changed.
        probed: the source ran while they were looked for, so its state may not be that of its file.
    """

    specs: tuple[InputSpec, ...]
    notes: tuple[str, ...] = ()
    probed: bool = False


def settle_inputs(
    loaded: Loaded, path: str, given: Sequence[InputSpec], samples: Samples | None, say: Callable[[str], None]
) -> Settled:
    """The inputs of ``loaded``: ``given`` before those of its file before those of ``samples`` before a search.

    Raises:
        InputError: they cannot be found, or ``given`` has bfloat16 where the source does not.
    """
    if given:
        return _in_float32(given, loaded)
    known = loaded.inputs or (infer_specs(samples) if samples else ())
    if known:
        return Settled(tuple(known))
    say("looking for the inputs, since none were given")
    try:
        found = find_inputs(loaded)
    except NothingFound as nothing:
        raise InputError(
            f"the inputs of {Path(path).name} are not known; give them with --input 'x=float32[N,3,224,224]' "
            f"(repeatable) or with --samples FILE ({nothing})"
        ) from nothing
    return Settled(found.specs, (found.note,), probed=True)


def _in_float32(given: Sequence[InputSpec], loaded: Loaded) -> Settled:
    """Inputs that the user describes as bfloat16 follow the module, which is float32 by now."""
    names = [spec.name for spec in given if spec.dtype == BFLOAT16]
    if names and not loaded.upcast:
        raise InputError(
            f"--input {names[0]} is bfloat16, which only modules with bfloat16 weights take (and these in float32 "
            "here); write float32"
        )
    specs = tuple(replace(spec, dtype="float32") if spec.dtype == BFLOAT16 else spec for spec in given)
    return Settled(specs, (f"bfloat16 inputs {', '.join(names)} taken as float32, like the weights",) if names else ())

"""Inputs, dimensions and samples as Python has them, turned into what the command line takes."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convert.arrays import is_array, to_array
from convert.errors import InputError
from convert.records import Dim, InputSpec

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

#: As many as are taken from a file or function of samples; a loader may have no end.
_MOST_SAMPLES = 256
_FORMS = "give specs such as 'x=float32[N,3,224,224]', or example tensors or arrays (a tuple, or a dict by input name)"
_READER = '''"""Samples that were given as arrays, one file each."""

from pathlib import Path

import numpy


def samples():
    """Yield them in order: arrays by input name, or in the order of the inputs."""
    for file in sorted(Path(__file__).parent.glob("*.npz")):
        with numpy.load(file) as archive:
            arrays = {name: archive[name] for name in archive.files}
        yield tuple(arrays.values()) if "arr_0" in arrays else arrays
'''


@dataclass(frozen=True)
class Asked:
    """What was said of the inputs.

    Attributes:
        specs: texts for ``--input``.
        dims: texts for ``--dim``.
        examples: the arrays among the inputs, by name; none where specs were given.
    """

    specs: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()
    examples: dict[str, Array] = field(default_factory=dict)


def read_inputs(
    inputs: Any, dims: Any, dynamic: Mapping[str, Mapping[int, str]] | None, names: Sequence[str] | None
) -> Asked:
    """Read ``inputs``, ``dims`` and ``dynamic`` of :func:`convert.convert`.

    Args:
        inputs: as given.
        dims: as given.
        dynamic: input name -> axis -> dimension, for examples.
        names: of the inputs, for examples without; empty if anything goes, None if they are unknown.

    Raises:
        InputError: one of them has no form that is known.
    """
    sizes = read_dims(dims)
    if inputs is None or isinstance(inputs, str | InputSpec) or (_is_group(inputs) and _first(inputs, _is_spec)):
        if dynamic:
            raise InputError(
                "dynamic= speaks of example tensors, and there are none; in a spec a word is a dynamic size"
            )
        return Asked(tuple(_specs(inputs)), sizes)
    examples = _examples(inputs, names)
    axes = _axes(examples, dynamic, sizes)
    return Asked(tuple(_spec_of(name, array, axes[name]) for name, array in examples.items()), sizes, examples)


def read_dims(dims: Any) -> tuple[str, ...]:
    """``{"N": (1, 4, 16)}``, ``{"N": 8}``, ``["N=1..4..16"]`` or records as texts for ``--dim``."""
    if dims is None:
        return ()
    if isinstance(dims, str | Dim):
        return (_dim(dims),)
    if isinstance(dims, Mapping):
        return tuple(f"{name}={_range(sizes)}" for name, sizes in dims.items())
    return tuple(map(_dim, dims))


def write_samples(value: Any, folder: Path) -> str:
    """Write arrays (by name, in order, or an iterable of such) into ``folder``; gives the text for ``--samples``.

    Raises:
        InputError: there is something else than arrays of numbers among them, or nothing at all.
    """
    folder.mkdir()
    if is_array(value) or _is_arrays(value):
        _write_npz(folder / "samples.npz", _by_name(value))
        return str(folder / "samples.npz")
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise InputError(f"samples is {_kind(value)}; give arrays by input name, a list of such, or a file")
    count = 0
    for count, sample in enumerate(islice(value, _MOST_SAMPLES), 1):
        if not (is_array(sample) or _is_arrays(sample)):
            raise InputError(f"sample {count - 1} is {_kind(sample)}; give arrays by input name")
        _write_npz(folder / f"{count:04d}.npz", _by_name(sample))
    if not count:
        raise InputError("samples holds nothing; give at least one sample, or leave it out")
    (folder / "_convert_samples.py").write_text(_READER, encoding="utf-8")
    return f"{folder / '_convert_samples.py'}:samples"


def _specs(inputs: Any) -> list[str]:
    from convert.specs import format_input

    if inputs is None:
        return []
    if isinstance(inputs, str | InputSpec):
        inputs = [inputs]
    if isinstance(inputs, Mapping):
        named = {str(name): item for name, item in inputs.items()}
        _require_all(named.values(), _is_spec)
        return [
            f"{name}={item}" if isinstance(item, str) else format_input(replace(item, name=name))
            for name, item in named.items()
        ]
    _require_all(inputs, _is_spec)
    return [item if isinstance(item, str) else format_input(item) for item in inputs]


def _examples(inputs: Any, names: Sequence[str] | None) -> dict[str, Array]:
    if isinstance(inputs, Mapping):
        _require_all(inputs.values(), is_array)
        return {str(name): to_array(str(name), item) for name, item in inputs.items()}
    values = [inputs] if is_array(inputs) else inputs
    if not isinstance(values, list | tuple) or not values:
        raise InputError(f"inputs is {_kind(values)}; {_FORMS}")
    _require_all(values, is_array)
    if names is None:
        raise InputError("the names of a file's inputs are not known here; give the examples as a dict by input name")
    known = names or [f"input_{index}" for index in range(len(values))]
    if len(values) > len(known):
        raise InputError(f"inputs has {len(values)} tensors, but the model takes {len(known)} ({', '.join(known)})")
    return {name: to_array(name, item) for name, item in zip(known, values, strict=False)}


def _axes(
    examples: Mapping[str, Array], dynamic: Mapping[str, Mapping[int, str]] | None, dims: Sequence[str]
) -> dict[str, dict[int, str]]:
    """The dynamic axes of every example; one dimension alone, without ``dynamic``, is the first axis of all."""
    if dynamic is None and len(dims) == 1:
        if len({array.shape[0] for array in examples.values() if array.ndim}) > 1:
            raise InputError("the examples' first axes differ, so dims= does not say which are dynamic; add dynamic=")
        return {name: {0: dims[0].partition("=")[0]} if array.ndim else {} for name, array in examples.items()}
    unknown = [name for name in dynamic or {} if name not in examples]
    if unknown:
        raise InputError(f"dynamic= names {unknown[0]!r}, which is no input; the inputs are {', '.join(examples)}")
    return {name: _axes_of(name, array, (dynamic or {}).get(name, {})) for name, array in examples.items()}


def _axes_of(name: str, array: Array, axes: Mapping[int, str]) -> dict[int, str]:
    for axis in axes:
        if not -array.ndim <= axis < array.ndim:
            raise InputError(f"dynamic= names axis {axis} of {name}, which has {array.ndim} axes; count from 0")
    return {axis % array.ndim: dim for axis, dim in axes.items()}


def _spec_of(name: str, array: Array, axes: Mapping[int, str]) -> str:
    sizes = ",".join(str(axes.get(axis, size)) for axis, size in enumerate(array.shape))
    return f"{name}={array.dtype}[{sizes}]"


def _dim(value: Any) -> str:
    if not isinstance(value, str | Dim):
        raise InputError(f"dims has {_kind(value)} in it; give for example {{'N': (1, 4, 16)}} or 'N=1..4..16'")
    return value if isinstance(value, str) else f"{value.name}={value.min}..{value.opt}..{value.max}"


def _range(sizes: Any) -> str:
    return "..".join(map(str, sizes)) if isinstance(sizes, list | tuple) else str(sizes)


def _by_name(value: Any) -> dict[str, Array]:
    if isinstance(value, Mapping):
        return {str(name): to_array(str(name), item) for name, item in value.items()}
    values = [value] if is_array(value) else value
    return {f"arr_{index}": to_array(f"array {index}", item) for index, item in enumerate(values)}


def _write_npz(file: Path, arrays: Mapping[str, Array]) -> None:
    from numpy.lib.format import write_array

    # Not numpy.savez, whose own argument names an input could have.
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                write_array(stream, array, allow_pickle=False)


def _is_arrays(value: Any) -> bool:
    """Whether this is one sample: arrays by name, or in order."""
    items = value.values() if isinstance(value, Mapping) else value
    return isinstance(value, Mapping | list | tuple) and bool(value) and all(map(is_array, items))


def _is_spec(value: Any) -> bool:
    return isinstance(value, str | InputSpec)


def _is_group(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple)


def _first(inputs: Any, test: Any) -> bool:
    items = list(inputs.values() if isinstance(inputs, Mapping) else inputs)
    return bool(items) and bool(test(items[0]))


def _require_all(items: Iterable[Any], test: Any) -> None:
    for item in items:
        if not test(item):
            raise InputError(f"inputs has {_kind(item)} in it; {_FORMS}")


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}" if value is not None else "None"

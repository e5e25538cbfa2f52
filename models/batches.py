"""Cutting the user's samples into test cases that fit the model's inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from convert.errors import InputError
from convert.records import Dim, InputSpec

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
    Sample = dict[str, Array]
    Samples = Sample | list[Sample]


def show(spec: InputSpec) -> str:
    """An input as the user writes it: ``float32[N,3,8,8]``."""
    return f"{spec.dtype}[{','.join(map(str, spec.shape))}]"


def listed(samples: Samples) -> list[Sample]:
    """Samples as a list; raises ``InputError`` if it is empty."""
    result = samples if isinstance(samples, list) else [samples]
    if not result:
        raise InputError("there are no samples; give at least one")
    return result


def split_into_cases(samples: Samples, specs: Sequence[InputSpec], dims: Sequence[Dim], limit: int = 8) -> list[Sample]:
    """Cut samples into inputs that fit ``specs``.

    A sample that fits stays whole. One with more rows than its first axis may have is cut into batches of the
    dimension's usual size (or of the fixed size); rows left over that are too few for a batch are dropped.

    Args:
        samples: arrays by input name, or a list of such.
        specs: the inputs.
        dims: the dimensions that they name.
        limit: the most cases to return.

    Returns:
        Cases with the dtypes of ``specs``; no value is changed but for rounding of floats.

    Raises:
        InputError: names the input, the shape or type it has and the one that is wanted.
    """
    bounds = {dim.name: dim for dim in dims}
    cases: list[Sample] = []
    for sample in listed(samples):
        _require_names(sample, specs)
        typed = {spec.name: _cast(sample[spec.name], spec) for spec in specs}
        cases.extend(islice(_pieces(typed, specs, bounds), limit - len(cases)))
        if len(cases) >= limit:
            break
    if not cases:
        raise InputError("the samples hold no whole batch; give at least as many rows as the smallest batch")
    return cases


def _pieces(sample: Sample, specs: Sequence[InputSpec], bounds: Mapping[str, Dim]) -> Iterator[Sample]:
    long = [spec for spec in specs if _is_long(sample[spec.name], spec, bounds)]
    if not long:
        _require_fit(sample, specs, bounds)
        yield sample
        return
    rows = {sample[spec.name].shape[0] for spec in long}
    if len(rows) > 1:
        text = ", ".join(f"{spec.name} {sample[spec.name].shape[0]}" for spec in long)
        raise InputError(f"the samples' first axes differ ({text}), so they cannot be cut into batches together")
    total, step = rows.pop(), min(_step(spec.shape[0], bounds) for spec in long)
    cut = {spec.name for spec in specs if sample[spec.name].shape[:1] == (total,) and _can_cut(spec, long)}
    for start in range(0, total, step):
        piece = {name: array[start : start + step] if name in cut else array for name, array in sample.items()}
        if start and _is_rest(piece, long, bounds):
            return
        _require_fit(piece, specs, bounds)
        yield piece


def _can_cut(spec: InputSpec, long: list[InputSpec]) -> bool:
    """Whether an input is cut along with those that are too long: it is one of them or shares their dimension."""
    return spec in long or any(spec.shape[:1] == other.shape[:1] for other in long)


def _is_long(array: Array, spec: InputSpec, bounds: Mapping[str, Dim]) -> bool:
    if array.ndim != len(spec.shape) or not array.ndim:
        return False
    first = spec.shape[0]
    return int(array.shape[0]) > (bounds[first].max if isinstance(first, str) else first)


def _step(first: int | str, bounds: Mapping[str, Dim]) -> int:
    return bounds[first].opt if isinstance(first, str) else max(first, 1)


def _is_rest(piece: Sample, long: list[InputSpec], bounds: Mapping[str, Dim]) -> bool:
    """Whether the last rows are too few for the smallest batch."""
    return any(piece[spec.name].shape[0] < _smallest(spec.shape[0], bounds) for spec in long)


def _smallest(first: int | str, bounds: Mapping[str, Dim]) -> int:
    return bounds[first].min if isinstance(first, str) else first


def _require_fit(sample: Sample, specs: Sequence[InputSpec], bounds: Mapping[str, Dim]) -> None:
    values: dict[str, int] = {}
    for spec in specs:
        shape, before = sample[spec.name].shape, dict(values)
        fits = len(shape) == len(spec.shape)
        for want, size in zip(spec.shape, shape, strict=False):
            if isinstance(want, str):
                fits = fits and bounds[want].min <= size <= bounds[want].max and values.setdefault(want, size) == size
            else:
                fits = fits and want == size
        if not fits:
            raise InputError(
                f"the sample of {spec.name} is {list(shape)}, but {_wanted(spec, bounds, before)} is wanted; "
                "change the samples, --input or --dim"
            )


def _wanted(spec: InputSpec, bounds: Mapping[str, Dim], values: Mapping[str, int]) -> str:
    parts = [f"{name}={bounds[name].min}..{bounds[name].max}" for name in spec.shape if isinstance(name, str)]
    shared = [name for name in spec.shape if isinstance(name, str) and name in values]
    parts += [f"{name}={values[name]} in the inputs before it" for name in shared]
    return show(spec) + (f" with {', '.join(dict.fromkeys(parts))}" if parts else "")


def _require_names(sample: Sample, specs: Sequence[InputSpec]) -> None:
    wanted = [spec.name for spec in specs]
    missing = [name for name in wanted if name not in sample]
    extra = [name for name in sample if name not in wanted]
    if missing or extra:
        raise InputError(
            f"the samples have {', '.join(sample)}, but the inputs are {', '.join(wanted)}; use these names"
        )


def _require_range(array: Array, spec: InputSpec) -> None:
    """Refuse values beyond the range that the input was declared with: every other case is drawn within it."""
    if spec.low is None or spec.high is None or array.dtype.kind not in "iu" or not array.size:
        return
    least, most = int(array.min()), int(array.max())
    if least < spec.low or most > spec.high:
        raise InputError(
            f"the sample of {spec.name} has the value {least if least < spec.low else most}, but --input says "
            f"{spec.low} to {spec.high}; change one of them"
        )


def _cast(array: Array, spec: InputSpec) -> Array:
    """``array`` in the type of ``spec``: floats may be rounded, integers must fit, other changes are refused."""
    import numpy as np

    kinds = (array.dtype.kind, np.dtype(spec.dtype).kind)
    _require_range(array, spec)
    if array.dtype.kind == "f" and bool(np.isnan(array).any()):
        raise InputError(f"the sample of {spec.name} holds NaN, which proves nothing; leave it out or fill it in")
    if array.dtype.name == spec.dtype:
        return array
    integers = all(kind in "iu" for kind in kinds)
    if kinds != ("f", "f") and not integers:
        raise InputError(f"the sample of {spec.name} is {array.dtype}, but {spec.dtype} is wanted; change one of them")
    with np.errstate(over="ignore"):
        result = array.astype(spec.dtype)
    if integers and not np.array_equal(result, array):
        raise InputError(f"the sample of {spec.name} has values that do not fit into {spec.dtype}; change one of them")
    if not integers and bool((np.isinf(result) & ~np.isinf(array)).any()):
        raise InputError(f"the sample of {spec.name} has values too large for {spec.dtype}; change one of them")
    return result

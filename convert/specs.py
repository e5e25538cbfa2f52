"""Read ``--input`` and ``--dim``, and settle which dynamic dimensions there are and how large they get."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from convert.errors import InputError
from convert.records import Dim, InputSpec

DTYPES = ("float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool")
#: Allowed for modules with such weights, which are turned into float32: neither numpy nor most runtimes have it.
BFLOAT16 = "bfloat16"
#: What a note of the golden run begins with where nobody said the inputs; such a note must not be overlooked.
ASSUMED = "no inputs were given: assumed"
#: A leading dynamic dimension is taken for the batch, and a batch for this unless ``--dim`` says otherwise.
BATCH_RANGE = (1, 4, 16)

#: What any runtime can index with.
LARGEST_SIZE = 2**31 - 1
_MOST_DIGITS = 30

# For text without space around it. No two parts that may be blank touch: a long blank must not take quadratic time.
_INPUT = re.compile(
    r"(?P<name>[^=\[\]{}]*[^=\[\]{}\s])\s*=\s*(?P<dtype>\w+)\s*\[(?P<shape>[^\]]*)\]"
    r"(\s*\{\s*(?P<low>-?\d+)\s*\.\.\s*(?P<high>-?\d+)\s*\})?"
)
_DIM = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<sizes>\d+(\s*\.\.\s*\d+){0,2})")


def parse_input(text: str) -> InputSpec:
    """Read one ``--input``, such as ``x=float32[N,3,224,224]`` or ``ids=int64[N,T]{0..999}``.

    A word in the shape is a dynamic dimension; ``{low..high}`` bounds an integer input, inclusively.

    Raises:
        InputError: the text is not of that form.
    """
    match = _INPUT.fullmatch(text.strip())
    if match is None:
        raise InputError(
            f"--input {text!r} is not of the form 'name=dtype[sizes]'; write for example "
            "'x=float32[N,3,224,224]', where a word is a dynamic dimension"
        )
    dtype = match["dtype"]
    if dtype not in (*DTYPES, BFLOAT16):
        raise InputError(f"--input {text!r} has the dtype {dtype!r}; allowed are {', '.join(DTYPES)}")
    low, high = (None, None) if match["low"] is None else (_number(match["low"]), _number(match["high"]))
    if low is not None and high is not None and low > high:
        raise InputError(f"--input {text!r} has an empty range {low}..{high}; write the smaller number first")
    _require_range(text, dtype, low, high)
    return InputSpec(match["name"], dtype, _parse_shape(text, match["shape"]), low, high)


def _require_range(text: str, dtype: str, low: int | None, high: int | None) -> None:
    if low is None or high is None:
        return
    if dtype == BFLOAT16 or np.dtype(dtype).kind not in "iu":
        raise InputError(f"--input {text!r} gives a range to {dtype}; only integers can have one, leave it out")
    kind = np.dtype(dtype)
    least, most = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    if low < least or high > most:
        raise InputError(f"--input {text!r} has a range beyond {dtype}; allowed are {least} to {most}")


def _parse_shape(text: str, shape: str) -> tuple[int | str, ...]:
    sizes: list[int | str] = []
    for item in (part.strip() for part in shape.split(",")) if shape.strip() else ():
        if item.isdecimal() and _number(item) > LARGEST_SIZE:
            raise InputError(f"--input {text!r} has the size {item!r}; a size is at most {LARGEST_SIZE}")
        if item.isdecimal() and _number(item) > 0:
            sizes.append(_number(item))
        elif re.fullmatch(r"[A-Za-z_]\w*", item):
            sizes.append(item)
        else:
            raise InputError(
                f"--input {text!r} has the size {item!r}; a size is a positive number or a word that "
                "names a dynamic dimension"
            )
    return tuple(sizes)


def _number(text: str) -> int:
    """``text`` as an integer; one with more digits than anything here can use becomes some other that is too large."""
    if len(text) <= _MOST_DIGITS:
        return int(text)
    too_large: int = 10**_MOST_DIGITS
    return -too_large if text.startswith("-") else too_large


def parse_dim(text: str) -> Dim:
    """Read one ``--dim``: ``N=1..4..16`` (min, opt, max), ``N=1..16`` (opt = max) or ``N=8`` (all three).

    Raises:
        InputError: the text is not of that form, or the sizes do not rise.
    """
    match = _DIM.fullmatch(text.strip())
    if match is None:
        raise InputError(f"--dim {text!r} is not of the form 'NAME=MIN..OPT..MAX'; write for example 'N=1..4..16'")
    sizes = [_number(item.strip()) for item in match["sizes"].split("..")]
    low, opt, high = {1: sizes * 3, 2: [sizes[0], sizes[-1], sizes[-1]], 3: sizes}[len(sizes)]
    if not 0 < low <= opt <= high:
        raise InputError(f"--dim {text!r} must rise from MIN over OPT to MAX and start at 1 or more")
    if high > LARGEST_SIZE:
        raise InputError(f"--dim {text!r} is too large; a size is at most {LARGEST_SIZE}")
    return Dim(match["name"], low, opt, high)


def settle_dims(inputs: Sequence[InputSpec], given: Iterable[Dim], known: Iterable[Dim] = ()) -> tuple[Dim, ...]:
    """The range of every dynamic dimension of ``inputs``: what the user gave, else what the model says, else a batch.

    Raises:
        InputError: a dimension has no range, or a range has no dimension.
    """
    ranges = {dim.name: dim for dim in known} | {dim.name: dim for dim in given}
    names = list(dict.fromkeys(size for spec in inputs for size in spec.shape if isinstance(size, str)))
    unused = [dim.name for dim in given if dim.name not in names]
    if unused:
        raise InputError(
            f"--dim {unused[0]} names no dynamic dimension of the inputs; these are "
            f"{', '.join(names) or 'none, since every size is fixed'}"
        )
    return tuple(ranges.get(name) or _batch(name, inputs) for name in names)


def _batch(name: str, inputs: Sequence[InputSpec]) -> Dim:
    if all(spec.shape.index(name) == 0 for spec in inputs if name in spec.shape):
        return Dim(name, *BATCH_RANGE)
    raise InputError(
        f"the dynamic dimension {name} has no range; say the smallest, usual and largest size with "
        f"--dim '{name}=MIN..OPT..MAX'"
    )


def format_input(spec: InputSpec) -> str:
    """The ``--input`` text of ``spec``."""
    bounds = "" if spec.low is None else f"{{{spec.low}..{spec.high}}}"
    return f"{spec.name}={spec.dtype}[{','.join(map(str, spec.shape))}]{bounds}"


def shape_at(spec: InputSpec, dims: dict[str, int]) -> tuple[int, ...]:
    """The shape of ``spec`` when the dynamic dimensions have the values ``dims``."""
    return tuple(dims[size] if isinstance(size, str) else size for size in spec.shape)

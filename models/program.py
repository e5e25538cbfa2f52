"""What an exported program says of itself: the tensors it takes, its dynamic dimensions, and its mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from convert.errors import InputError
from convert.records import Dim, InputSpec

_HUGE = 65536
"""A larger upper bound is torch's way to say that there is none."""


def interface(program: Any, path: str) -> tuple[tuple[InputSpec, ...], tuple[Dim, ...], list[str]]:
    """The tensors that a program takes, its dynamic dimensions, and notes.

    A dimension has the range that the program states; an open end becomes four times the example's size, at least 8. A
    symbol of which only an expression is an input's size is frozen.

    Raises:
        InputError: an input is a number that may change, which no artifact can take.
    """
    import torch

    found = list(_tensor_inputs(program, path))
    examples = _example_shapes(program, [name for name, _ in found])
    frozen, sizes = _symbols(found, examples)
    why = "since an input's size is an expression of it"
    notes = [f"dimension {symbol} frozen at {value}, {why}" for symbol, value in frozen]
    fixed = dict(frozen)
    specs = []
    for name, value in found:
        shape = tuple(_size(size, at, examples.get(name), fixed) for at, size in enumerate(value.shape))
        dtype = str(value.dtype).removeprefix("torch.")
        if value.dtype == torch.bfloat16:
            raise InputError(f"input {name} of {path} is bfloat16, which no runtime here takes; export it in float32")
        specs.append(InputSpec(name, dtype, shape))
    dims = [_dim(program, symbol, opt) for symbol, opt in sizes.items() if symbol not in fixed]
    names = _readable(specs, [dim.name for dim in dims])
    renamed = [replace(spec, shape=tuple(names.get(size, size) for size in spec.shape)) for spec in specs]
    return tuple(renamed), tuple(replace(dim, name=names[dim.name]) for dim in dims), notes


def _readable(specs: Sequence[InputSpec], symbols: Sequence[str]) -> dict[str | int, str]:
    """A name that a user can write in ``--dim`` for each symbol: ``N`` for a batch, else ``INPUT_AXIS``.

    The names that the user gave when exporting are not in the file.
    """
    names: dict[str | int, str] = {}
    for symbol in symbols:
        places = [(spec, axis) for spec in specs for axis, size in enumerate(spec.shape) if size == symbol]
        batch = "N" not in names.values() and all(axis == 0 for _, axis in places)
        names[symbol] = "N" if batch else f"{places[0][0].name}_{places[0][1]}"
    return names


def _tensor_inputs(program: Any, path: str) -> Iterator[tuple[str, Any]]:
    import torch

    wanted = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    constant = {
        spec.arg.name for spec in program.graph_signature.input_specs if type(spec.arg).__name__ == "ConstantArgument"
    }
    for node in program.graph.nodes:
        if node.op != "placeholder" or node.name not in wanted or node.name in constant:
            continue
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor):
            raise InputError(f"input {node.name} of {path} is a number and no tensor; export it with a fixed value")
        yield node.name, value


def _example_shapes(program: Any, names: list[str]) -> dict[str, tuple[int, ...]]:
    import torch

    if not program.example_inputs:
        return {}
    args, kwargs = program.example_inputs
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if len(leaves) != len(names):
        return {}
    return {name: tuple(leaf.shape) for name, leaf in zip(names, leaves, strict=True)}


def _symbols(
    found: list[tuple[str, Any]], examples: dict[str, tuple[int, ...]]
) -> tuple[list[tuple[str, int]], dict[str, int | None]]:
    """Symbols that must be frozen, with their example value, and the example size of every plain symbol."""
    plain: dict[str, int | None] = {}
    derived: dict[str, int] = {}
    for name, value in found:
        for at, size in enumerate(value.shape):
            if isinstance(size, int):
                continue
            expression = size.node.expr
            example = examples[name][at] if name in examples else size.node.hint
            if expression.is_Symbol:
                plain.setdefault(str(expression), None if example is None else int(example))
            else:
                known = size.node.shape_env.backed_var_to_val
                derived |= {str(symbol): int(known.get(symbol, 1)) for symbol in expression.free_symbols}
    return [(symbol, plain.get(symbol) or value) for symbol, value in derived.items()], plain


def _size(size: Any, at: int, example: tuple[int, ...] | None, fixed: dict[str, int]) -> int | str:
    if isinstance(size, int):
        return size
    expression = size.node.expr
    if expression.is_Symbol and str(expression) not in fixed:
        return str(expression)
    value = expression.subs({symbol: fixed[str(symbol)] for symbol in expression.free_symbols})
    return int(value) if example is None else example[at]


def _dim(program: Any, symbol: str, example: int | None) -> Dim:
    bounds = next((item for key, item in program.range_constraints.items() if str(key) == symbol), None)
    low = 1 if bounds is None else max(1, _finite(bounds.lower, 1))
    high = _HUGE if bounds is None else _finite(bounds.upper, _HUGE)
    opt = max(low, example if example is not None else low)
    high = max(4 * opt, 8) if high >= _HUGE else high
    return Dim(symbol, low, min(opt, high), high)


def _finite(bound: Any, otherwise: int) -> int:
    try:
        return int(bound)
    except (OverflowError, TypeError, ValueError, AttributeError):
        return otherwise


def training_notes(program: Any) -> list[str]:
    """Whether a program was exported in train mode: dropout or batch statistics that are on."""
    names = {"aten.dropout.default": "train", "aten.batch_norm.default": "training"}
    for node in program.graph.nodes:
        argument = names.get(str(node.target))
        if argument is None:
            continue
        position = next(at for at, item in enumerate(node.target._schema.arguments) if item.name == argument)
        if node.kwargs.get(argument) is True or (len(node.args) > position and node.args[position] is True):
            return [f"was exported in train mode ({node.name} is active); export model.eval() instead"]
    return []

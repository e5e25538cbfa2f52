"""Read and extend the graph inside a TFLite file: constants, and operators that compute sizes at run time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from convert.errors import StageError

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
#: What the stock resolver registers from a later version on than 1.
_VERSIONS = {"BROADCAST_TO": 2}
#: Codes from here on stand in the newer of the two fields of an operator code.
_PLACEHOLDER = 127
#: Names of tensors have to differ in the whole file, or ai-edge-quantizer refuses it.
_NUMBERS = itertools.count()


def schema() -> Any:
    """The classes generated from TFLite's schema."""
    from ai_edge_litert import schema_py_generated

    return schema_py_generated


def operator_names() -> dict[int, str]:
    """Number of a built-in operator -> its name, such as ``RESHAPE``."""
    found = vars(schema().BuiltinOperator)
    return {number: name for name, number in found.items() if isinstance(number, int)}


def _dtypes() -> dict[int, Any]:
    kinds = schema().TensorType
    return {kinds.FLOAT32: np.float32, kinds.INT32: np.int32, kinds.INT64: np.int64, kinds.BOOL: np.bool_}


class Graph:
    """One subgraph of a model, with the values of its constants.

    New operators are collected in :attr:`added`; whoever walks the graph puts them before the operator at hand.
    """

    def __init__(self, model: Any, body: Any) -> None:
        """Take the subgraph ``body``, a ``SubGraphT``, of ``model``, a ``ModelT``; both are changed in place."""
        self.model, self.body = model, body
        self.added: list[Any] = []
        self._names = operator_names()
        self._numbers = {name: number for number, name in self._names.items()}

    def name_of(self, operator: Any) -> str:
        """The built-in operator's name; ``CUSTOM`` where it is none."""
        code = self.model.operatorCodes[operator.opcodeIndex]
        return self._names[max(code.builtinCode, code.deprecatedBuiltinCode)]

    def shape(self, tensor: int) -> Shape:
        """The sizes that the file states for ``tensor``."""
        sizes = self.body.tensors[tensor].shape
        return () if sizes is None else tuple(int(size) for size in sizes)

    def data(self, tensor: int) -> bytes | None:
        """The bytes of a constant; None for what is computed."""
        data = self.model.buffers[self.body.tensors[tensor].buffer].data
        return None if data is None or len(data) == 0 else bytes(data)

    def value(self, tensor: int) -> Array:
        """The constant ``tensor``.

        Raises:
            StageError: its type is none that a size or a broadcast value has.
        """
        kind, data = self.body.tensors[tensor].type, self.data(tensor)
        if kind not in _dtypes() or data is None:
            raise StageError(f"a constant of TFLite type {kind} depends on a dynamic size")
        return np.frombuffer(data, _dtypes()[kind]).reshape(self.shape(tensor))

    def constant(self, value: Array) -> int:
        """Add a constant; gives the index of its tensor."""
        buffer = schema().BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
        self.model.buffers.append(buffer)
        kind = next(kind for kind, dtype in _dtypes().items() if value.dtype == dtype)
        return self.tensor(value.shape, kind, len(self.model.buffers) - 1)

    def tensor(self, shape: Sequence[int], kind: int, buffer: int = 0) -> int:
        """Add a tensor of ``shape`` (as in the first of the two files) and TFLite type ``kind``; gives its index."""
        made = schema().TensorT()
        made.shape, made.type, made.buffer = list(shape), kind, buffer
        made.name = f"resize/{next(_NUMBERS)}".encode()
        self.body.tensors.append(made)
        return len(self.body.tensors) - 1

    def ints(self, *values: int) -> int:
        """Add a one-dimensional int32 constant."""
        return self.constant(np.array(values, np.int32))

    def add(
        self, name: str, inputs: Sequence[int], shape: Sequence[int], kind: int | None = None, **options: Any
    ) -> int:
        """Add an operator with one output of ``shape``; gives the tensor of that output.

        Args:
            name: of the built-in operator, such as ``STRIDED_SLICE``.
            inputs: tensors.
            shape: of the output in the first of the two files.
            kind: TFLite type of the output; by default int32, which sizes have.
            options: fields of the operator's options, such as ``axis``.
        """
        output = self.tensor(shape, schema().TensorType.INT32 if kind is None else kind)
        made = schema().OperatorT()
        made.inputs, made.outputs = list(inputs), [output]
        self.become(made, name, **options)
        self.added.append(made)
        return output

    def become(self, operator: Any, name: str, **options: Any) -> None:
        """Turn ``operator`` into another one, with the inputs and outputs that it has."""
        operator.opcodeIndex = self._code(name)
        kind = "".join(part.capitalize() for part in name.split("_")) + "Options"
        # Some operators, such as TANH, have no options.
        operator.builtinOptionsType = getattr(schema().BuiltinOptions, kind, 0)
        operator.builtinOptions = getattr(schema(), f"{kind}T")() if operator.builtinOptionsType else None
        for key, value in options.items():
            setattr(operator.builtinOptions, key, value)

    def _code(self, name: str) -> int:
        number, version = self._numbers[name], _VERSIONS.get(name, 1)
        for index, code in enumerate(self.model.operatorCodes):
            if max(code.builtinCode, code.deprecatedBuiltinCode) == number and code.version >= version:
                return index
        made = schema().OperatorCodeT()
        made.builtinCode, made.deprecatedBuiltinCode, made.version = number, min(number, _PLACEHOLDER), version
        self.model.operatorCodes.append(made)
        return len(self.model.operatorCodes) - 1

"""What a pickle would import, found by reading its opcodes and running none of them."""

from __future__ import annotations

import pickletools
import re
from collections.abc import Iterator
from typing import IO, Any

from convert.errors import InputError

TORCH_MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""First bytes of a ``torch.save`` file from before the zip format: a pickle of torch's magic number."""

_UNKNOWN = "a name that is built at load time"
_STRINGS = {"BINUNICODE", "SHORT_BINUNICODE", "UNICODE", "BINUNICODE8", "SHORT_BINSTRING", "BINSTRING", "STRING"}
_EXTENSIONS = {"EXT1", "EXT2", "EXT4"}

# What torch.load(weights_only=True) rebuilds without running code, and numpy's own scalars and arrays.
_DATA_ONLY = re.compile(
    r"torch\.(cuda\.|sparse\.|cuda\.sparse\.)?[A-Z]\w*(Storage|Tensor)"
    r"|torch\.(Size|Tensor|device|dtype)"
    r"|torch\.(bool|b?complex\d+|bfloat16|u?int\d+|q?u?int\d+(x\d)?|float\d+\w*|bits\d+(x\d)?)"
    r"|torch\.per_(tensor|channel)_(affine|symmetric|affine_float_qparams)"
    r"|torch\.storage\.(Typed|Untyped)Storage"
    r"|torch\._utils\._rebuild_(tensor|tensor_v2|tensor_v3|parameter|parameter_with_state|qtensor|sparse_tensor"
    r"|nested_tensor|meta_tensor_no_storage|device_tensor_from_numpy|device_tensor_from_cpu_tensor|wrapper_subclass)"
    r"|torch\._tensor\._rebuild_from_type_v2"
    r"|torch\.nn\.parameter\.Parameter"
    r"|torch\.serialization\._get_layout"
    r"|collections\.(OrderedDict|Counter)"
    r"|_codecs\.encode"
    r"|builtins\.(set|bytearray|complex)"
    r"|numpy(\._core|\.core)\.multiarray\.(scalar|_reconstruct)"
    r"|numpy\.(ndarray|dtype)"
    r"|numpy\.dtypes\.\w+DType"
)


def imports(data: bytes | IO[bytes]) -> list[str]:
    """Every ``module.name`` that unpickling ``data`` would import, in order, each once.

    Names that cannot be told without running the pickle appear as one entry that says so. A stream is read up to
    the end of its first pickle.

    Raises:
        InputError: the opcodes are broken.
    """
    try:
        return list(dict.fromkeys(_globals(data)))
    except (ValueError, IndexError, UnicodeDecodeError, OverflowError) as error:
        raise InputError(f"the pickle inside is broken ({error}); save the model again") from error


def code_imports(names: list[str]) -> list[str]:
    """Those of ``names`` that are more than tensors, plain containers and numbers: the ones that can run code."""
    return [name for name in names if not _DATA_ONLY.fullmatch(name)]


def legacy_imports(stream: IO[bytes]) -> list[str]:
    """The imports of a ``torch.save`` file of the old format: four pickles after another, the fourth is the object."""
    return list(dict.fromkeys(name for _ in range(4) for name in imports(stream)))


def _globals(data: bytes | IO[bytes]) -> Iterator[str]:
    memo: dict[int, Any] = {}
    recent: list[Any] = []
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in ("GLOBAL", "INST"):
            yield _modern(*str(argument).split(" ", 1))
        elif opcode.name == "STACK_GLOBAL":
            pair = recent[-2:]
            known = len(pair) == 2 and all(isinstance(item, str) for item in pair)
            yield _modern(*pair) if known else _UNKNOWN
        elif opcode.name in _EXTENSIONS:
            yield _UNKNOWN
        _follow(opcode.name, argument, memo, recent)


def _follow(name: str, argument: Any, memo: dict[int, Any], recent: list[Any]) -> None:
    """Keep the last values pushed, as far as they are plain strings; everything else counts as unknown."""
    if name in _STRINGS:
        recent.append(argument)
    elif name in ("BINGET", "LONG_BINGET", "GET"):
        recent.append(memo.get(int(argument)))
    elif name == "MEMOIZE":
        memo[len(memo)] = recent[-1] if recent else None
    elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
        memo[int(argument)] = recent[-1] if recent else None
    elif name not in ("PROTO", "FRAME"):
        recent.append(None)
    del recent[:-2]


def _modern(module: str, name: str = "") -> str:
    return f"{module.replace('__builtin__', 'builtins')}.{name}"

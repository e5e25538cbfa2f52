"""What a pickle would import, found by reading its opcodes and running none of them."""

from __future__ import annotations

import pickletools
import re
import struct
from collections.abc import Iterator
from typing import IO, Any, cast

from convert.errors import InputError
from convert.texts import reason

TORCH_MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""First bytes of a ``torch.save`` file from before the zip format: a pickle of torch's magic number."""

_LEGACY_PARTS = 4
_UNKNOWN = "a name that is built at load time"
_STRINGS = {"BINUNICODE", "SHORT_BINUNICODE", "UNICODE", "BINUNICODE8", "SHORT_BINSTRING", "BINSTRING", "STRING"}
# What can put text on the stack: strings, and calls of whatever was imported before.
_MAKE_TEXT = _STRINGS | {"GLOBAL", "INST", "PERSID", "BINPERSID"}
_EXTENSION = "a name from a registry of extensions"
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
    names, problem = _until_the_end(data)
    if problem:
        raise InputError(f"the pickle inside is broken ({problem}); save the model again")
    return names


def imports_so_far(data: bytes) -> list[str]:
    """What unpickling ``data`` would import before it fails, where it is no pickle or a broken one.

    Data that only begins like a pickle by chance gives an empty list; code in a pickle runs although its end is broken.
    """
    if data[:1] == b"\x80" and data[1:2] > b"\x05":  # there is no such protocol
        return []
    names, problem = _until_the_end(data)
    # Nobody registers extensions any more, so that in data which is no pickle such a code means nothing.
    return [name for name in names if not problem or name != _EXTENSION]


def _until_the_end(data: bytes | IO[bytes]) -> tuple[list[str], str]:
    """The names found, and what is wrong where the opcodes end too early."""
    found: dict[str, None] = {}
    try:
        for name in _globals(data if isinstance(data, bytes) else _Bounded(data)):
            found[name] = None
    except (ValueError, IndexError, OverflowError, struct.error) as error:
        return list(found), reason(error) or type(error).__name__
    return list(found), ""


class _Bounded:
    """A stream that is never asked for more bytes than are left, since Python makes room for them all beforehand."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        here = stream.tell()
        self._end = stream.seek(0, 2)
        stream.seek(here)

    def read(self, size: int) -> bytes:
        return self._stream.read(min(size, max(0, self._end - self._stream.tell())))

    def readline(self) -> bytes:
        return self._stream.readline()

    def tell(self) -> int:
        return self._stream.tell()


def code_imports(names: list[str]) -> list[str]:
    """Those of ``names`` that are more than tensors, plain containers and numbers: the ones that can run code."""
    return [name for name in names if not _DATA_ONLY.fullmatch(name)]


def legacy_imports(stream: IO[bytes]) -> list[str]:
    """The imports of a ``torch.save`` file of the old format: four pickles after another, the fourth is the object."""
    return list(dict.fromkeys(name for _ in range(_LEGACY_PARTS) for name in imports(stream)))


def legacy_imports_so_far(stream: IO[bytes]) -> list[str]:
    """As :func:`imports_so_far`, for a file of the old format."""
    found: list[str] = []
    for _ in range(_LEGACY_PARTS):
        names, problem = _until_the_end(stream)
        found += names
        if problem:
            break
    return list(dict.fromkeys(found))


def _globals(data: bytes | _Bounded) -> Iterator[str]:
    memo: dict[int, Any] = {}
    recent: list[Any] = []
    texts = False
    for opcode, argument, _ in pickletools.genops(cast("IO[bytes]", data)):
        if opcode.name in ("GLOBAL", "INST"):
            yield _modern(*str(argument).split(" ", 1))
        elif opcode.name == "STACK_GLOBAL":
            pair = recent[-2:]
            if len(pair) < 2 or not texts:  # the unpickler fails here, too
                raise ValueError("it names something without having said what")
            known = all(isinstance(item, str) for item in pair)
            yield _modern(*pair) if known else _UNKNOWN
        elif opcode.name in _EXTENSIONS:
            yield _EXTENSION
        texts = texts or opcode.name in _MAKE_TEXT
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

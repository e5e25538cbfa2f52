"""Whether an exported program may be opened: a look at everything in the archive that torch would run or evaluate.

``torch.export.load`` unpickles without restriction, evaluates shape expressions as Python, writes names from the file
into Python code, resolves any ``torch.…`` name as an operator and loads compiled libraries. An archive is opened
without ``--trust-pickle`` only if none of these places holds more than torch itself puts there.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from convert.errors import InputError
from convert.models.content import ZIP_ERRORS
from convert.models.expressions import LABEL, is_arithmetic, is_guard
from convert.models.pickles import TORCH_MAGIC, code_imports, imports_so_far, legacy_imports_so_far

_IDENTIFIER = re.compile(r"\w*")
_NAMES = ("name", "as_name", "forward_arg_names")
_OBJECTS = ("custom_obj_", "opaque_obj_")
_EXTRA = re.compile(r"(?!.*models/)([^/]+/)?extra(_files)?/.*")
_HIGHER_ORDER = (
    "cond|while_loop|scan|map_impl|associative_scan|wrap_with_set_grad_enabled|wrap_with_autocast|auto_functionalized"
    "|auto_functionalized_v2|invoke_subgraph|flex_attention|tag_activation_checkpoint|strict_mode|hints_wrapper"
)
_ARITHMETIC = "add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_|or_|not_|xor|getitem"
_OPERATOR = re.compile(
    r"torch\.ops\.(?!prim\.|debugprims\.|inductor\.|profiler\.|load_library\.|import_module\.|loaded_libraries\."
    r"|higher_order\.)"
    r"(_c10d_functional|[a-zA-Z]\w*)\.(?!save\.|from_file\.)(__i?(and|or|xor|lshift|rshift)__|(?!__)\w+)\.[a-zA-Z]\w*"
    rf"|torch\.ops\.higher_order\.({_HIGHER_ORDER})"
    rf"|_operator\.({_ARITHMETIC})"
    r"|math\.[a-z0-9]+"
    r"|torch\._?sym_[a-z0-9_]+"
)
_TRUST = "; if you trust where it comes from, add --trust-pickle"


def require_harmless(path: str, names: Iterable[str], read: Callable[[str], bytes]) -> None:
    """Refuse an archive that could run code.

    Args:
        path: the file, for the message.
        names: every record of the archive.
        read: gives the bytes of a record.

    Raises:
        InputError: names the first record that holds more than a plain program and plain weights.
    """
    for name in names:
        problem = _problem(name, read)
        if problem:
            raise InputError(f"{path} was not opened, since its part {name!r} {problem}{_TRUST}")


def _problem(name: str, read: Callable[[str], bytes]) -> str:
    if any(part.startswith(_OBJECTS) for part in name.split("/")):
        return "is a pickled custom object, which can run code"
    if "data/aotinductor/" in name:
        return "is compiled code"
    if _EXTRA.fullmatch(name):
        return ""
    data = read(name)
    if data[:4] == b"PK\x03\x04" or data.startswith(TORCH_MAGIC) or data[:1] == b"\x80":
        return _pickle_problem(data)
    return _json_problem(data) if data.lstrip()[:1] in (b"{", b"[") else ""


def _pickle_problem(data: bytes) -> str:
    """A raw weight may begin like a pickle by chance; torch reads those without unpickling, and so they may pass."""
    found = code_imports(_embedded_imports(data))
    return f"is a pickle that would import {', '.join(found[:3])}" if found else ""


def _embedded_imports(data: bytes) -> list[str]:
    if data.startswith(TORCH_MAGIC):
        return legacy_imports_so_far(io.BytesIO(data))
    if data[:1] == b"\x80":
        return imports_so_far(data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            pickles = [name for name in archive.namelist() if name.endswith("data.pkl")]
            return [found for name in pickles for found in imports_so_far(archive.read(name))]
    except ZIP_ERRORS:
        return ["something from an archive that cannot be read"]


def _json_problem(data: bytes) -> str:
    try:
        value = json.loads(data.decode("utf-8"))
        bad = _first_bad(value, (), node=False)
    except ValueError:  # torch reads it with the same functions and fails as well
        return ""
    except RecursionError:
        return "is nested too deeply to be checked"
    return f"holds {bad}" if bad else ""


def _first_bad(value: Any, path: tuple[str, ...], node: bool) -> str:
    """What is wrong with the first string in ``value`` that torch would not have written; empty if there is none.

    Args:
        value: a part of the file's JSON.
        path: keys that lead here.
        node: whether this lies inside an operator of the graph, whose string arguments torch only quotes.
    """
    if isinstance(value, str):
        return "" if _fine(value, path, node) else f"{value[:60]!r} as {path[-1] if path else 'text'}"
    if isinstance(value, list):
        return next(filter(None, (_first_bad(item, path, node) for item in value)), "")
    if not isinstance(value, dict):
        return ""
    if "as_custom_obj" in value:
        return "a custom object"
    for key, item in value.items():
        # Ranges are looked up by the text of an expression.
        if not (LABEL.fullmatch(key) or (path[-1:] == ("range_constraints",) and is_arithmetic(key))):
            return f"{key[:60]!r} as a name"
        # Stack traces and the like, which torch keeps as text.
        bad = "" if key == "metadata" else _first_bad(item, (*path, key), node or key == "nodes")
        if bad:
            return bad
    return ""


def _fine(text: str, path: tuple[str, ...], node: bool) -> bool:
    key = path[-1] if path else ""
    if key == "expr_str":
        return is_arithmetic(text)
    if key == "guards_code":
        return is_guard(text)
    if key in ("target", "as_operator"):
        return bool(_OPERATOR.fullmatch(text))
    if key in ("in_spec", "out_spec"):
        return _fine_tree(text)
    if key == "path_name":
        return bool(LABEL.fullmatch(text)) and not text.startswith(_OBJECTS)
    if key in _NAMES:
        return bool(_IDENTIFIER.fullmatch(text))
    quoted = node and key in ("as_string", "as_strings") and "arg" in path
    return quoted or bool(LABEL.fullmatch(text))


def _fine_tree(text: str) -> bool:
    """Whether a description of nested inputs or outputs names only containers, and has torch import nothing."""
    try:
        _, root = json.loads(text)
        return _fine_branch(root)
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def _fine_branch(branch: dict[str, Any]) -> bool:
    context = branch["context"]
    texts = [branch["type"] or "", *(_strings(json.loads(context)) if context is not None else ())]
    # pytree imports the module that the last two name.
    harmless = all(LABEL.fullmatch(item) and item not in ("default_factory_module", "__enum__") for item in texts)
    return harmless and all(_fine_branch(child) for child in branch["children_spec"])


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)

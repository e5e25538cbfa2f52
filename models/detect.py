"""What a model is, from what the user typed: a file (told by its content) or a factory. Runs and unpickles nothing."""

from __future__ import annotations

import ast
import re
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

from convert.errors import InputError
from convert.models import content, pickles
from convert.paths import exists, is_file, is_folder
from convert.records import Kind, ModelRef
from convert.texts import cut

_FACTORY = re.compile(r"(?P<where>.+):(?P<name>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_HINT = "give a file made by torch.jit.save, torch.export.save, torch.save or torch.onnx.export, or file.py:factory"


def detect(text: str, model: str | None = None, trust_pickle: bool = False) -> ModelRef:
    """Find out what ``text`` names and whether it may be loaded.

    Args:
        text: a file, ``file.py:factory`` or ``pkg.mod:factory``.
        model: ``--model``: the factory whose module takes the weights of a checkpoint.
        trust_pickle: ``--trust-pickle``: code in the file may run.

    Returns:
        Absolute paths; a factory in a module has the path ``FOLDER/pkg.mod``, where ``FOLDER`` is the working folder.

    Raises:
        InputError: there is no such file, it is no model, or it needs one of the two options.
    """
    path = Path(text).absolute()
    if is_folder(path):
        raise InputError(f"{text} is a folder; give the model file in it")
    if not exists(path):
        where, name = split_factory(text)
        _refuse_model(text, "a factory, which makes its own module", model)
        return ModelRef(where, Kind.FACTORY, name, trust_pickle=trust_pickle)
    try:
        kind, wants = _kind(path, text)
    except OSError as error:
        raise InputError(f"{text} cannot be read ({error.strerror}); check its permissions") from error
    if kind is Kind.PICKLE and not trust_pickle:
        raise InputError(_pickle_message(text, wants))
    if kind is Kind.STATE_DICT and model is None:
        raise InputError(
            f"{text} holds weights without the code of their module; add --model file.py:factory (or pkg.mod:factory) "
            "with the class or function that makes it"
        )
    if kind in (Kind.STATE_DICT, Kind.PICKLE) and model is not None:
        if _FACTORY.fullmatch(model) is None:
            raise InputError(f"--model {model} names no class or function; write file.py:factory or pkg.mod:factory")
        where, name = split_factory(model)
        return ModelRef(str(path), kind, name, where, trust_pickle)
    _refuse_model(text, f"of the kind {kind.value}, which holds its own code", model)
    return ModelRef(str(path), kind, trust_pickle=trust_pickle)


def split_factory(text: str) -> tuple[str, str]:
    """``nets.py:make`` as (absolute file, ``make``), ``pkg.mod:make`` as (``FOLDER/pkg.mod``, ``make``).

    The folder of a module is the working folder, unless it is written before it, as in ``/there/pkg.mod:make``.

    Raises:
        InputError: it is neither, or the file is not there.
    """
    match = _FACTORY.fullmatch(text)
    if match is None:
        raise InputError(f"there is no file {text}; {_HINT}")
    where = match["where"]
    if is_file(where) or where.endswith(".py"):
        if not is_file(where):
            raise InputError(f"there is no file {where} to take {match['name']} from; check the path before the colon")
        return str(Path(where).absolute()), match["name"]
    if lies_in_folder(Path(where)):
        return str(Path(where).absolute()), match["name"]
    if not _MODULE.fullmatch(where):
        raise InputError(f"{text} is neither a file nor a factory; write file.py:factory or pkg.mod:factory")
    return str(Path.cwd() / where), match["name"]


def lies_in_folder(path: Path) -> bool:
    """Whether ``path`` is ``FOLDER/pkg.mod`` with a package or module ``pkg`` in a folder that it names."""
    top = path.parent / path.name.partition(".")[0]
    is_module = path != Path(path.name) and _MODULE.fullmatch(path.name) is not None
    return is_module and (is_folder(top) or is_file(top.with_suffix(".py")))


def _refuse_model(text: str, what: str, model: str | None) -> None:
    if model is not None:
        raise InputError(f"{text} is {what}, so --model {model} has no use here; leave it out")


def _kind(path: Path, text: str) -> tuple[Kind, list[str]]:
    """The kind of an existing file, and for a pickle what it would import."""
    size = path.stat().st_size
    if size == 0:
        raise InputError(f"{text} is empty; save or download it again")
    start = content.head(path)
    other = content.not_a_model(start)
    if other:
        raise InputError(f"{text} is {other}")
    if start.startswith(b"PK"):
        return _zip_kind(path, text)
    if content.is_safetensors(start, size):
        return Kind.STATE_DICT, []
    if start.startswith(pickles.TORCH_MAGIC):
        with path.open("rb") as stream:
            wants = _imports(text, lambda: pickles.legacy_imports(stream))
        return (Kind.PICKLE, wants) if wants else (Kind.STATE_DICT, [])
    if start[:1] == b"\x80" and len(start) > 1 and 2 <= start[1] <= 5:
        # A plain pickle is never opened by torch's restricted unpickler, so even one of plain data needs trust.
        with path.open("rb") as stream:
            return Kind.PICKLE, _imports(text, lambda: pickles.imports(stream)) or ["plain data"]
    if path.suffix == ".py":
        raise InputError(_python_message(path, text))
    problem = content.onnx_problem(path)
    if problem is None:
        return Kind.ONNX, []
    if problem:
        raise InputError(f"{text} cannot be read: {problem}; export or download it again")
    raise InputError(f"{text} is not a model that is known here (its first bytes are {start[:16]!r}); {_HINT}")


def _zip_kind(path: Path, text: str) -> tuple[Kind, list[str]]:
    try:
        with zipfile.ZipFile(path) as archive:
            problem = content.bomb_problem(archive, path.stat().st_size)
            if problem:
                raise InputError(f"{text} cannot be a model, since {problem}; copy or save it again")
            return _archive_kind(archive, text)
    except content.ZIP_ERRORS as error:
        raise InputError(f"{text} is a zip file that was cut short or damaged ({error}); copy it again") from error


def _archive_kind(archive: zipfile.ZipFile, text: str) -> tuple[Kind, list[str]]:
    names = archive.namelist()
    inner = {name.partition("/")[2] for name in names}
    if "serialized_exported_program.json" in names:
        return Kind.EXPORTED, []
    if "archive_format" in inner:
        if not any(name.startswith("models/") for name in inner):
            raise InputError(f"{text} holds compiled code only; give the file that torch.export.save wrote")
        return Kind.EXPORTED, []
    if "constants.pkl" in inner and any(name.startswith("code/") for name in inner):
        return Kind.TORCHSCRIPT, []
    if "data.pkl" not in inner:
        there = ", ".join(names[:3]) or "nothing"
        raise InputError(f"{text} is a zip file without a model (it holds {there}); {_HINT}")
    if any(name.startswith(".data/extern_modules") for name in inner):
        raise InputError(f"{text} is a torch.package archive; load it with torch.package and save it by torch.jit.save")
    pickle = next(name for name in names if name.partition("/")[2] == "data.pkl")
    wants = _imports(text, lambda: pickles.imports(archive.read(pickle)))
    return (Kind.PICKLE, wants) if wants else (Kind.STATE_DICT, [])


def _imports(text: str, read: Callable[[], list[str]]) -> list[str]:
    try:
        return pickles.code_imports(read())
    except InputError as error:
        raise InputError(f"{text} cannot be read: {error}") from error


def _pickle_message(text: str, wants: list[str]) -> str:
    listed = ", ".join(cut(name, 100) for name in wants[:6]) + (f" and {len(wants) - 6} more" if len(wants) > 6 else "")
    return (
        f"{text} is a pickle that runs code when it is loaded (it wants {listed}); if you trust where it comes from, "
        "add --trust-pickle, else save its state dict or a torch.export program instead"
    )


def _python_message(path: Path, text: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the user's own code is not what is asked about
            body = ast.parse(path.read_bytes()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        body = []
    names = [item.name for item in body if isinstance(item, ast.FunctionDef | ast.ClassDef) and item.name[0] != "_"]
    there = f" (it has {', '.join(names[:5])})" if names else ""
    return f"{text} is Python code; add the class or function that makes the model{there}, as in {text}:NAME"

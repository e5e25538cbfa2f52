"""Reading pickles on the CPU: through torch's restricted unpickler always, unless the user trusts the file."""

from __future__ import annotations

import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

from convert.errors import InputError
from convert.models import factory
from convert.models.content import ZIP_ERRORS, bomb_problem, head
from convert.models.pickles import TORCH_MAGIC, code_imports, imports, legacy_imports


def read(path: str, trust: bool) -> Any:
    """The object in a file made by ``torch.save`` (or by ``pickle``, if trusted), with its tensors on the CPU.

    Raises:
        InputError: the file is damaged, wants code that is not there, or would run code without ``trust``.
    """
    import torch

    code = [] if trust else wanted(path)
    if code:
        raise InputError(
            f"{path} would run code when it is loaded (it wants {', '.join(code[:3])}); if you trust where it comes "
            "from, add --trust-pickle"
        )
    try:
        if trust and _is_plain(path):
            with Path(path).open("rb") as stream:
                return pickle.load(stream)  # noqa: S301  (the user said so)
        with torch.serialization.safe_globals(_numpy_names()):
            return torch.load(path, map_location="cpu", weights_only=not trust)
    except (ImportError, AttributeError) as error:
        if not trust:  # then nothing that the file names may be imported, not even to tell what is missing
            raise InputError(f"{path} cannot be read ({factory.one_line(error)}); copy or save it again") from error
        missing = _missing(path)
        raise InputError(
            f"{path} needs {', '.join(missing[:3]) or 'code'}, which cannot be imported here "
            f"({factory.one_line(error)}); {_advice(missing)}, or save a torch.export program instead"
        ) from error
    except Exception as error:
        raise InputError(f"{path} cannot be read ({factory.one_line(error)}); copy or save it again") from error


def provide_classes(path: str, where: str) -> None:
    """Import ``where`` so that the classes it defines can be found, also those pickled by a script as ``__main__``."""
    source = factory.module(where)
    main = sys.modules["__main__"]
    for name in wanted(path):
        module, _, attribute = name.rpartition(".")
        if module == "__main__" and not hasattr(main, attribute) and hasattr(source, attribute):
            setattr(main, attribute, getattr(source, attribute))


def wanted(path: str) -> list[str]:
    """What the pickle in ``path`` imports besides plain data, found without running it."""
    try:
        return _wanted(path)
    except ZIP_ERRORS as error:
        raise InputError(f"{path} was cut short or damaged ({error}); copy or save it again") from error
    except InputError as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _wanted(path: str) -> list[str]:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            problem = bomb_problem(archive, Path(path).stat().st_size)
            if problem:
                raise InputError(f"{problem}; save it again")
            inner = next((name for name in archive.namelist() if name.endswith("data.pkl")), None)
            if inner is None:
                raise InputError("it is a zip file without the part data.pkl; save it with torch.save")
            return code_imports(imports(archive.read(inner)))
    with Path(path).open("rb") as stream:
        return code_imports(imports(stream) if _is_plain(path) else legacy_imports(stream))


def _missing(path: str) -> list[str]:
    return [name for name in wanted(path) if not _there(name)]


def _advice(missing: list[str]) -> str:
    """What to do about names that cannot be imported: where they are decides by which option they are given."""
    in_script = [name.removeprefix("__main__.") for name in missing if name.startswith("__main__.")]
    modules = list(dict.fromkeys(name.partition(".")[0] for name in missing if not name.startswith("__main__.")))
    parts = []
    if in_script:
        parts.append(f"name the script that defined {in_script[0]} with --model file.py:{in_script[0]}")
    if modules or not in_script:
        parts.append(f"give the folder that holds {' and '.join(modules) or 'it'} with --code DIR")
    return " and ".join(parts)


def _there(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    try:
        __import__(module)
    except Exception:  # whatever a user's module does when it is imported, it is not usable
        return False
    return hasattr(sys.modules[module], attribute)


def _is_plain(path: str) -> bool:
    start = head(Path(path))
    return start[:1] == b"\x80" and not start.startswith(TORCH_MAGIC)


def _numpy_names() -> list[Any]:
    """What trainers' checkpoints hold besides tensors: numpy scalars and arrays, which run no code."""
    import numpy as np
    from numpy._core.multiarray import _reconstruct, scalar

    dtypes = [type(np.dtype(code)) for code in "?bBhHiIlLqQefdFD"]
    old = [(scalar, "numpy.core.multiarray.scalar"), (_reconstruct, "numpy.core.multiarray._reconstruct")]
    return [scalar, _reconstruct, np.ndarray, np.dtype, *dtypes, *old]

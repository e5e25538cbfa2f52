"""A live model on its way to the workers, which are other processes and may be other environments."""

from __future__ import annotations

import copy
import inspect
import re
import shutil
import sys
import warnings
import zipfile
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from convert.api_code import code_for
from convert.errors import InputError
from convert.models.pickles import imports

_LOADER = '''"""Put the code of a live module within reach of the worker that loads it."""

import sys

FOLDERS = {folders!r}


def provide():
    """The folders that this file puts on the import path, last, so that they hide nothing."""
    return FOLDERS


sys.path.extend(folder for folder in FOLDERS if folder not in sys.path)
'''


@dataclass(frozen=True)
class Saved:
    """A live model as a file.

    Attributes:
        name: of its class.
        path: the file, absolute.
        options: what has to be said with such a file, by keyword.
    """

    name: str
    path: str
    options: dict[str, Any] = field(default_factory=dict)


def is_live(model: Any) -> bool:
    """Whether ``model`` is a module or exported program of torch; imports nothing to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module | torch.export.ExportedProgram)


def forward_names(model: Any) -> tuple[str, ...]:
    """Names of what a live model can be given by position, in order; empty where it takes anything (``*args``)."""
    torch = sys.modules["torch"]
    if isinstance(model, torch.export.ExportedProgram):
        return tuple(name for name in model.graph_signature.user_inputs if isinstance(name, str))
    if isinstance(model, torch.jit.ScriptModule):
        return tuple(argument.name for argument in model.forward.schema.arguments[1:])
    if _is_prepared(_bare(model)):
        return tuple(_bare(model).qat_inputs)
    parameters = inspect.signature(_bare(model).forward).parameters.values()
    if any(item.kind is item.VAR_POSITIONAL for item in parameters):
        return ()
    return tuple(item.name for item in parameters if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD))


def save_live(model: Any, folder: Path) -> Saved:
    """Write ``model`` into ``folder`` in a form that a worker can load; the model itself stays as it is.

    A module is pickled: classes, functions and lambdas of ``__main__`` or a notebook by value, all other code by name,
    with the folders that it lies in.

    Raises:
        InputError: something in the module cannot be pickled.
    """
    torch = sys.modules["torch"]
    model = _bare(model)
    name = re.sub(r"\W", "_", getattr(model, "original_name", "") or type(model).__name__)
    places = folder / "model", folder / "code"
    for place in places:
        place.mkdir()
    if _is_prepared(model):
        import_module("convert.qat.saving").save(model, places[0] / f"{name}.pt2")
        return Saved(name, str(places[0] / f"{name}.pt2"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, about formats that it wants to be rid of
            if isinstance(model, torch.export.ExportedProgram):
                torch.export.save(model, places[0] / f"{name}.pt2")
                return Saved(name, str(places[0] / f"{name}.pt2"), {"trust_pickle": True})
            file = places[0] / f"{name}.pt"
            if isinstance(model, torch.jit.ScriptModule):
                torch.jit.save(model, file)
                return Saved(name, str(file))
            return Saved(name, str(file), _pickle(_without_parametrizations(model), file, places[1]))
    except Exception as error:  # whatever the user's own code raises while it is being saved
        raise InputError(
            f"the module {name} cannot be handed to a worker ({type(error).__name__}: {_first_line(error)}); save it "
            "with torch.export.save and give the file, or name its factory as 'file.py:factory'"
        ) from error


def _is_prepared(model: Any) -> bool:
    """Whether it came from ``convert.qat.prepare``: what is converted then is its float network with its ranges."""
    qat = sys.modules.get("convert.qat.module")
    return qat is not None and isinstance(model, qat.QatModule)


def _bare(model: Any) -> Any:
    # What torch.compile wraps around a module is made for this process; the weights are the module's own.
    return getattr(model, "_orig_mod", model)


def _without_parametrizations(model: Any) -> Any:
    """A copy whose weight norms and the like are plain weights, where there are some: they refuse to be pickled."""
    tools = sys.modules["torch"].nn.utils.parametrize
    if not any(map(tools.is_parametrized, model.modules())):
        return model
    model = copy.deepcopy(model).eval()
    for part in filter(tools.is_parametrized, list(model.modules())):
        # The copy has the caller's class, which torch takes the parametrization out of: that would undo it there too.
        shared = type(part)
        part.__class__ = type(shared.__name__, shared.__bases__, dict(vars(shared)))
        for name in list(part.parametrizations):
            tools.remove_parametrizations(part, name)
    return model


def _pickle(model: Any, file: Path, code: Path) -> dict[str, Any]:
    """Pickle ``model``; code that no worker could import goes along by value. Gives the options for loading it."""
    import cloudpickle

    by_value = []
    try:
        while True:
            sys.modules["torch"].save(model, file, cloudpickle, pickle_protocol=4)
            needed = code_for(_imports(file))
            lost = [
                sys.modules[name] for name in needed.lost if name not in cloudpickle.list_registry_pickle_by_value()
            ]
            if not lost:
                break
            for module in lost:
                cloudpickle.register_pickle_by_value(module)
                by_value.append(module)
    finally:
        for module in by_value:
            cloudpickle.unregister_pickle_by_value(module)
    return _loader(Path(cloudpickle.__file__).parent, needed.folders, code)


def _imports(file: Path) -> list[str]:
    with zipfile.ZipFile(file) as archive:
        inner = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        return imports(archive.read(inner))


def _loader(cloudpickle: Path, folders: tuple[str, ...], code: Path) -> dict[str, Any]:
    """Write what makes the worker find the code: it reads the pickle with the cloudpickle that wrote it."""
    shutil.copytree(cloudpickle, code / "cloudpickle", ignore=shutil.ignore_patterns("__pycache__"))
    file = code / "_convert_live.py"
    file.write_text(_LOADER.format(folders=list(folders)), encoding="utf-8")
    return {"trust_pickle": True, "factory": f"{file}:provide"}


def _first_line(error: BaseException) -> str:
    return next((line.strip()[:300] for line in str(error).splitlines() if line.strip()), "no message")

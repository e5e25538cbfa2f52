"""Loading a model of any kind into one form: a callable in evaluation mode on the CPU. Runs in a worker with torch."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from convert.constants import parse_constants
from convert.errors import InputError
from convert.models import checkpoint, exported, factory, program, tensors, unpickle
from convert.models.health import in_float32, require_sound, require_unquantised, size_of, to_eval, weight_notes
from convert.models.onnx_source import OnnxSource
from convert.models.seeds import SEED, seeded
from convert.records import Dim, InputSpec, Kind, ModelRef


@dataclass(frozen=True)
class Loaded:
    """A model that can be run.

    Attributes:
        module: callable, in evaluation mode, on the CPU; an :class:`OnnxSource` for an ONNX file.
        class_name: of the module, for people.
        parameter_names: what ``forward`` can be given, in order; empty where it takes anything (``*args``).
        inputs, dims: what the file itself says of its inputs (exported programs, ONNX); None where it says nothing.
        notes: what is worth knowing or was changed.
        exported: the ``ExportedProgram``; None for other kinds.
        script: whether ``module`` is TorchScript.
        parameters, parameter_bytes: number of weights and the bytes they take.
        upcast: whether it was bfloat16 and is float32 now.
        constants: what the user fixed of the other parameters of ``forward``, by name.
    """

    module: Any
    kind: Kind
    class_name: str
    parameter_names: tuple[str, ...]
    inputs: tuple[InputSpec, ...] | None = None
    dims: tuple[Dim, ...] = ()
    notes: tuple[str, ...] = ()
    exported: Any = None
    script: bool = False
    parameters: int = 0
    parameter_bytes: int = 0
    upcast: bool = False
    constants: dict[str, Any] = field(default_factory=dict)
    cache: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


def load(ref: ModelRef) -> Loaded:
    """Load what :func:`convert.models.detect.detect` found.

    Raises:
        InputError: it cannot be loaded, is not a module, has weights that do not fit, or holds NaN.
    """
    loaders: dict[Kind, Callable[[ModelRef], Loaded]] = {
        Kind.TORCHSCRIPT: _torchscript,
        Kind.EXPORTED: _exported,
        Kind.STATE_DICT: _state_dict,
        Kind.PICKLE: _pickle,
        Kind.ONNX: _onnx,
        Kind.FACTORY: _factory,
    }
    # The user's folders come first, in the order given, as if their own script lay there.
    sys.path[:0] = [folder for folder in ref.code if folder not in sys.path]
    return replace(loaders[ref.kind](ref), constants=parse_constants(ref.constants))


def _torchscript(ref: ModelRef) -> Loaded:
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch.jit is on its way out; files of its kind are not
            module = torch.jit.load(ref.path, map_location="cpu")
    except Exception as error:
        raise InputError(
            f"{ref.path} cannot be opened by torch {torch.__version__} ({factory.one_line(error)}); save it again"
        ) from error
    return _live(module, ref)


def _exported(ref: ModelRef) -> Loaded:
    opened = exported.open_program(ref.path, ref.trust_pickle)
    require_sound(opened.state_dict.items(), ref.path, buffers=set(opened.graph_signature.buffers))
    inputs, dims, notes = program.interface(opened, ref.path)
    module = opened.module()
    count, size = size_of(opened.parameters())
    return Loaded(
        module=module,
        kind=ref.kind,
        class_name="ExportedProgram",
        parameter_names=tuple(spec.name for spec in inputs),
        inputs=inputs,
        dims=dims,
        notes=(*notes, *program.training_notes(opened), *weight_notes(opened.parameters())),
        exported=opened,
        parameters=count,
        parameter_bytes=size,
    )


def _onnx(ref: ModelRef) -> Loaded:
    source = OnnxSource(ref.path)
    return Loaded(
        module=source,
        kind=ref.kind,
        class_name="ONNX graph",
        parameter_names=tuple(spec.name for spec in source.inputs),
        inputs=source.inputs,
        parameters=source.parameters,
        parameter_bytes=source.parameter_bytes,
    )


def _factory(ref: ModelRef) -> Loaded:
    return _without_mode(_live(_made(ref.path, ref.factory), ref))


def _without_mode(loaded: Loaded) -> Loaded:
    """A factory may well make its module in train mode; only a saved mode is worth a word."""
    return replace(loaded, notes=tuple(note for note in loaded.notes if not note.startswith("was saved in train mode")))


def _state_dict(ref: ModelRef) -> Loaded:
    if tensors.is_safetensors(ref.path):
        return _filled(tensors.read(ref.path), ref)
    return _filled(unpickle.read(ref.path, ref.trust_pickle), ref)


def _filled(value: Any, ref: ModelRef) -> Loaded:
    """A module made by the factory that ``ref`` names, with the weights in ``value``."""
    weights, notes = checkpoint.unpack(value, ref.path)
    module = _made(ref.factory_file, ref.factory)
    notes += checkpoint.fill(module, weights, ref.path)
    loaded = _without_mode(_live(module, ref))
    return replace(loaded, notes=(*notes, *loaded.notes))


def _pickle(ref: ModelRef) -> Loaded:
    """A pickle that the user trusts: a module, a checkpoint with a module in it, or one with weights only.

    ``--model`` names the factory for weights; for a module it names the file that has its class.
    """
    if ref.factory_file is not None:
        unpickle.provide_classes(ref.path, ref.factory_file)
    value = unpickle.read(ref.path, ref.trust_pickle)
    if isinstance(value, Mapping):
        inside = next((key for key in ("model", "ema", "module", "net") if _is_module(value.get(key))), None)
        if inside is not None:
            loaded = _live(value[inside], ref)
            return replace(loaded, notes=(f"module taken from the checkpoint's key {inside}", *loaded.notes))
        if ref.factory is not None:
            return _filled(value, ref)
        raise InputError(f"{ref.path} holds weights without the code of their module; add --model file.py:factory")
    if not _is_module(value):
        raise InputError(f"{ref.path} holds a {type(value).__name__} and no torch.nn.Module; save the module itself")
    return _live(value, ref)


def _made(where: str | None, name: str | None) -> Any:
    if where is None or name is None:
        raise InputError("a checkpoint needs --model file.py:factory")
    with seeded(SEED):
        module = factory.call(where, name)
    if not _is_module(module):
        raise InputError(f"{name} of {where} returned a {type(module).__name__}; it must return a torch.nn.Module")
    return module


def _is_module(value: Any) -> bool:
    import torch

    return isinstance(value, torch.nn.Module)


def _live(module: Any, ref: ModelRef) -> Loaded:
    """Wrap an ``nn.Module`` or ScriptModule: on the CPU, in evaluation mode, with weights that are numbers."""
    import torch

    if isinstance(module, torch._dynamo.OptimizedModule):
        module = module._orig_mod  # exporters compile in their own ways, and this one would cost half a minute
    script = isinstance(module, torch.jit.ScriptModule)
    require_unquantised(module, ref.path)
    buffers = {name for name, _ in module.named_buffers()}
    require_sound([*module.named_parameters(), *module.named_buffers()], ref.path, buffers)
    notes = to_eval(module)
    upcast = [] if script else in_float32(module.cpu())
    notes += upcast
    count, size = size_of(module.parameters())
    return Loaded(
        module=module,
        kind=ref.kind,
        class_name=getattr(module, "original_name", "") or type(module).__name__,
        parameter_names=_parameter_names(module, script),
        notes=(*notes, *weight_notes(module.parameters())),
        script=script,
        parameters=count,
        parameter_bytes=size,
        upcast=bool(upcast),
    )


def _parameter_names(module: Any, script: bool) -> tuple[str, ...]:
    if script:
        return tuple(argument.name for argument in module.forward.schema.arguments[1:])
    signature = inspect.signature(module.forward)
    if any(item.kind is item.VAR_POSITIONAL for item in signature.parameters.values()):
        return ()
    return tuple(name for name, item in signature.parameters.items() if item.kind is not item.VAR_KEYWORD)

"""Stage ``qat``: prepare a model, let the user's function train it, and save what it has learned."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from convert.cases import draw, plan_cases
from convert.errors import InputError, StageError
from convert.models import factory
from convert.models.load import load
from convert.qat.preparing import prepare
from convert.qat.saving import save
from convert.records import Kind, ModelRef
from convert.serial import from_plain
from convert.stages.running import Opened, open_source
from convert.worker import Channel


def run(args: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Train ``args['ref']`` by ``args['train']`` for ``args['epochs']`` epochs, into the file ``args['file']``.

    Raises:
        InputError: the model cannot be prepared, or the function is not there.
        StageError: the function failed.
    """
    import torch

    warnings.filterwarnings("ignore")
    torch.manual_seed(int(args["seed"]))
    train = factory.find(*args["train"])
    channel.say("loading the model")
    ref = from_plain(ModelRef, args["ref"])
    loaded = load(ref)
    if loaded.kind is Kind.ONNX or loaded.script:
        what = "an ONNX graph" if loaded.kind is Kind.ONNX else "TorchScript"
        raise InputError(f"{ref.path} is {what}, which cannot be trained here; give the module or an exported program")
    if loaded.constants:
        raise InputError("--constant cannot be used with qat; write a factory whose forward takes tensors only")
    opened = open_source(args | {"half": False}, channel, loaded)
    channel.say("preparing")
    module = prepare(loaded.exported or loaded.module, _example(opened))
    for epoch in range(int(args["epochs"])):
        channel.say(f"epoch {epoch + 1} of {args['epochs']}")
        _epoch(train, module, epoch, channel)
    channel.say("saving")
    save(module, Path(args["file"]))
    return {"ranges": len(dict(module.named_buffers())), "notes": list(opened.notes)}


def _example(opened: Opened) -> tuple[Any, ...]:
    """Tensors at the usual sizes, in the order of ``forward``."""
    import torch

    known = opened.source.loaded.parameter_names
    specs = {spec.name: spec for spec in opened.specs}
    order = [name for name in known if name in specs] if set(specs) <= set(known) else list(specs)
    feeds = draw(plan_cases(opened.specs, opened.dims)[0], opened.specs, {})
    return tuple(torch.from_numpy(feeds[name]) for name in order)


def _epoch(train: Any, module: Any, epoch: int, channel: Channel) -> None:
    module.train()
    try:
        said = train(module, epoch)
    except InputError:
        raise
    except Exception as error:
        where = getattr(train, "__name__", "the training function")
        raise StageError(f"{where} failed in epoch {epoch + 1}: {factory.one_line(error)}") from error
    if said is not None:
        channel.say(f"epoch {epoch + 1}: {said}")

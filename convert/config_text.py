"""The text of a new ``convert.toml``: what is known as values, everything else as comments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from convert.targets import TARGETS, load_target

_HEAD = """\
# Options of `convert` for {model} ({kind}: {module}, {parameters:,} parameters).
# A key says what the option of that name says; an option on the command line wins. Paths are relative to this file.
# A {name} is used where it lies beside the model; from elsewhere, name it with --config.
"""


@dataclass(frozen=True)
class Known:
    """What goes into the file.

    Attributes:
        model, kind, module, parameters: the model, for people.
        values: by key; others are written as comments with an example or their default.
        notes: lines to write above ``input`` and ``dim``, by key.
        pickle: whether the model is one that ``--trust-pickle`` is needed for.
    """

    model: str
    kind: str
    module: str
    parameters: int
    values: Mapping[str, Any]
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    pickle: bool = False


def render(known: Known, name: str) -> str:
    """The text of the file, which is called ``name``."""
    head = _HEAD.format(
        model=_one_line(known.model),
        kind=known.kind,
        module=_one_line(known.module),
        parameters=known.parameters,
        name=name,
    )
    if known.pickle:
        head += (
            "# This model runs code when it is loaded: --trust-pickle must be on the command line, not in this file.\n"
        )
    return head + "".join(f"\n{_block(key, text, example, known)}" for key, (text, example) in _entries().items())


def _block(key: str, text: str, example: Any, known: Known) -> str:
    lines = [text, *map(_one_line, known.notes.get(key, ()))]
    value = known.values.get(key)
    assignment = f"{key} = {_literal(example if value is None else value)}"
    return "".join(f"# {line}\n" for line in lines) + ("# " if value is None else "") + assignment + "\n"


def _entries() -> dict[str, tuple[str, Any]]:
    """Every key with what it means, and an example or the default."""
    precisions = list(dict.fromkeys(one for name in TARGETS for one in load_target(name).precisions))
    return {
        "target": (f"Runtimes: {', '.join(TARGETS)}.", ["onnx"]),
        "precision": (f"Precisions: {', '.join(precisions)}.", precisions),
        "input": (
            "Inputs of forward: a word is a dynamic size, {0..9} the range of integers.",
            ["x=float32[N,3,224,224]"],
        ),
        "dim": ("Smallest, usual and largest size of dynamic dimensions.", ["N=1..4..16"]),
        "samples": ("Real inputs: a .npz, a .pt or file.py:function.", "samples.npz"),
        "model": ("For a checkpoint: what makes the module that it fills.", "nets.py:Net"),
        "constant": ("Arguments of forward that are no tensors, fixed.", ["steps=4", "mask=None"]),
        "code": ("Folders with modules that the model's code needs.", ["src"]),
        "opset": ("ONNX opset; without it, the newest that all targets read.", 18),
        "out": ("Output folder; without it, dist/NAME in the working folder.", "build"),
        "timeout": ("Seconds that one stage of one route may take.", 600),
        "memory": ("Memory that one worker may use; without it, there is no limit.", "8G"),
        "threads": ("Threads of the checked and timed sessions.", 1),
        "jobs": ("Targets built side by side.", 2),
        "bench-seconds": ("Time for the latency of one artifact; 0 for none.", 4),
        "calibration": ("Real inputs for int8: a .npz, .npy, .pt, folder or file.py:function.", "samples.npz"),
        "evaluation": ("Held-out inputs to measure quality on, in the same forms.", "held_out.npz"),
        "preprocess": ("From an image file of such a folder to an input.", "data.py:image"),
        "calibration-samples": ("Use the first so many samples; without it, all.", 256),
        "range": ("How ranges follow from values: minmax, percentile or mse.", "minmax"),
        "percentile": ("Share of values, in percent, that a range holds with range = percentile.", 99.99),
        "io-type": ("What integer artifacts take and give: float or int8.", "float"),
        "require-full-integer": ("Fail where an operator of an int8 artifact computes in float.", False),
        "auto-mixed": ("Keep the fewest layers in float with which int8 meets its gates.", False),
        "min-sqnr": ("Lowest signal-to-noise ratio of an integer artifact, in dB.", 15.0),
        "metric": ("Your own figure of quality, larger is better.", "score.py:accuracy"),
        "max-drop": ("How far the metric may fall below the source's.", 0.01),
        "platform": ("What artifacts are for; without it, this host. See `convert platforms`.", ["linux/arm64"]),
        "cpu": ("CPUs to make code for, one for each platform.", ["cortex-a72"]),
        "device": ("Devices to prove and time artifacts on.", ["ssh://user@host"]),
        "gpu": ("Compute capabilities that engines of trt-rtx are for.", ["sm86", "sm89", "sm120"]),
        "workspace": ("Scratch memory of an engine; without it, the whole memory of the GPU.", "2G"),
        "hardware-compatible": (
            "Other GPUs that an engine of trt runs on: none, ampere-plus or same-compute-capability.",
            "none",
        ),
        "engine-flag": ("Of engines of trt: refit, strip-plan, version-compatible.", ["refit"]),
        "provider": ("What onnxruntime runs onnx on: cpu, cuda or tensorrt.", "cpu"),
        "max-cpu-ops": ("Largest share of operators that may run on the CPU under another provider.", "0%"),
        "tune": ("Look for faster kernels of tvm: a number of trials, or of minutes as 10m.", "500"),
        "tuning-db": ("Tuned kernels for tvm from a file; none for neither those nor the ones tuned here.", "pi.json"),
        "allow-deferred": ("Exit with 0 although something is deferred to another host.", False),
    }


def _literal(value: Any) -> str:
    """``value`` as TOML, whose strings are those of JSON but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _one_line(text: str) -> str:
    """``text`` as part of a comment, which may hold no control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)

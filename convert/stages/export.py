"""Stage 2: the source to ONNX by one of two routes. Nothing here decides whether the file is right; the check does."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from convert.errors import StageError
from convert.models.factory import one_line
from convert.options import LEAST_OPSET
from convert.records import Golden, InputSpec, ModelRef, OutputSpec
from convert.serial import from_plain
from convert.stages.source import LiveSource, live_source
from convert.stages.traceable import require_traceable
from convert.targets.onnx_files import EXTERNAL_BYTES, gather_weights, save_graph
from convert.targets.torch_shapes import dynamic_shapes
from convert.worker import Channel

#: Newest file format that every runtime of the project reads.
_IR_VERSION = 10


def run(args: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Export ``args['ref']`` by ``args['route']`` to ``args['file']`` at ``args['opset']``; describe the file.

    Raises:
        StageError: the exporter failed, or wrote another opset or interface than was asked for.
    """
    golden = from_plain(Golden, args["golden"])
    file, opset, route = Path(args["file"]), int(args["opset"]), str(args["route"])
    warnings.filterwarnings("ignore")
    channel.say("exporting")
    note = ""
    if route == "as-given":
        opset, note = _copy_onnx(Path(args["ref"]["path"]), file, opset, exact=bool(args["exact"]))
    else:
        source = live_source(from_plain(ModelRef, args["ref"]), golden, trace=route == "torchscript")
        if route == "torchscript":
            require_traceable(source, str(args["branching"]))
        _ROUTES[route](source, golden, file, opset)
    gather_weights(file)
    return _finish(file, golden, opset, route) | {"note": note}


def simplify(args: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Write a simplified copy of ``args['file']`` to ``args['to']``."""
    import onnx
    import onnxslim

    channel.say("simplifying")
    slim = onnxslim.slim(onnx.load(args["file"]))
    if slim is None:
        raise StageError("onnxslim gave no model")
    save_graph(slim, Path(args["to"]))
    return {"nodes": len(slim.graph.node)}


def _names(golden: Golden) -> tuple[list[str], list[str]]:
    return [spec.name for spec in golden.inputs], [spec.name for spec in golden.outputs]


def _dynamo(source: LiveSource, golden: Golden, file: Path, opset: int) -> None:
    import torch

    inputs, outputs = _names(golden)
    common: dict[str, Any] = {
        "opset_version": opset,
        "input_names": inputs,
        "output_names": outputs,
        "dynamo": True,
        "verbose": False,
        "external_data": golden.parameter_bytes > EXTERNAL_BYTES,
    }
    if source.exported is not None:
        torch.onnx.export(source.exported, (), str(file), **common)
        return
    styles = ("range", "free", "auto") if golden.dims else ("range",)
    _first_that_works(
        [
            partial(
                torch.onnx.export,
                source.module,
                source.example,
                str(file),
                dynamic_shapes=(dynamic_shapes(golden, style),),
                **common,
            )
            for style in styles
        ]
    )


def _first_that_works(attempts: list[Callable[[], Any]]) -> None:
    for attempt in attempts[:-1]:
        try:
            attempt()
        except Exception as error:  # the exporter's own, of many types; the last attempt's is the one reported
            print(f"[convert] {type(error).__name__}: {error}\n[convert] trying with fewer constraints")
        else:
            return
    attempts[-1]()


def _torchscript(source: LiveSource, golden: Golden, file: Path, opset: int) -> None:
    import torch

    inputs, outputs = _names(golden)
    specs: tuple[InputSpec | OutputSpec, ...] = (*golden.inputs, *golden.outputs)
    axes = {spec.name: {i: size for i, size in enumerate(spec.shape) if isinstance(size, str)} for spec in specs}
    torch.onnx.export(
        source.module,
        source.example,
        str(file),
        dynamo=False,
        opset_version=opset,
        verbose=False,
        input_names=inputs,
        output_names=outputs,
        dynamic_axes={k: v for k, v in axes.items() if v},
    )


_ROUTES: dict[str, Callable[[LiveSource, Golden, Path, int], None]] = {"dynamo": _dynamo, "torchscript": _torchscript}


def _copy_onnx(origin: Path, file: Path, opset: int, exact: bool) -> tuple[int, str]:
    """Copy a graph with all its weights, at ``opset`` or, unless ``exact``, at its own where that is older.

    A graph that cannot be brought to ``opset`` keeps its own, unless ``exact``: a runtime may read it all the same.

    Returns the opset of the copy, 13 at least, and a note where it is not the one that was wanted.
    """
    import onnx

    # Loading and saving again folds external weights of the original into the copy, wherever they lay.
    model = onnx.load(str(origin))
    own = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    wanted, note = opset if exact else max(LEAST_OPSET, min(own, opset)), ""
    if wanted != own:
        try:
            model = onnx.version_converter.convert_version(model, wanted)
        except Exception as error:  # the converter's own, of several types
            if exact or own < LEAST_OPSET:
                raise
            wanted, note = own, f"kept at opset {own}: bringing it to {wanted} failed ({one_line(error)})"
    save_graph(model, file)
    return wanted, note


def _finish(file: Path, golden: Golden, opset: int, route: str) -> dict[str, Any]:
    import onnx

    model = onnx.load(str(file), load_external_data=False)
    written = {entry.domain: entry.version for entry in model.opset_import}
    if written.get("", 0) != opset:
        raise StageError(
            f"route {route} was asked for opset {opset} and wrote opset {written.get('', 0)}",
            f"use --opset {written.get('', 0)}, or another target if that one cannot read it",
        )
    have = [value.name for value in model.graph.input], [value.name for value in model.graph.output]
    if list(have) != list(_names(golden)):
        raise StageError(f"the file has inputs {have[0]} and outputs {have[1]}, the source {_names(golden)}")
    _tidy(model)
    _name_axes(model, golden)
    onnx.save(model, str(file))
    axes = {
        value.name: [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    return {"opset": opset, "axes": axes, "nodes": len(model.graph.node), "lost": _lost_axes(golden, axes)}


def _tidy(model: Any) -> None:
    """Take out what says where and how the file was made: paths of this machine in the exporter's stack traces."""
    model.ir_version = min(model.ir_version, _IR_VERSION)
    del model.metadata_props[:]
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        del value.metadata_props[:]
    del model.graph.metadata_props[:]


def _name_axes(model: Any, golden: Golden) -> None:
    """Declare the axes as the source has them: dynamic ones under its own names.

    Exporters invent names, and may declare the size of the example for an output that follows its input all the same;
    whether it does is what the check finds out.
    """
    renamed = {}
    for value, spec in zip(model.graph.input, golden.inputs, strict=True):
        for axis, size in zip(value.type.tensor_type.shape.dim, spec.shape, strict=False):
            if isinstance(size, str) and axis.dim_param:
                renamed[axis.dim_param] = size
                axis.dim_param = size
    frozen = [_declare_output(value, spec) for value, spec in zip(model.graph.output, golden.outputs, strict=True)]
    if any(frozen):
        # The shapes in between come from the same assumption.
        del model.graph.value_info[:]
    for value in model.graph.value_info:
        for axis in value.type.tensor_type.shape.dim:
            if axis.dim_param in renamed:
                axis.dim_param = renamed[axis.dim_param]


def _declare_output(value: Any, spec: OutputSpec) -> bool:
    """Name the dynamic axes of one output; True if one had been declared with a fixed size."""
    frozen = False
    for axis, size in zip(value.type.tensor_type.shape.dim, spec.shape, strict=False):
        if isinstance(size, str) or size == -1:
            frozen |= axis.HasField("dim_value")
            if isinstance(size, str):
                axis.dim_param = size
            elif axis.HasField("dim_value"):
                axis.ClearField("dim_value")
    return frozen


def _lost_axes(golden: Golden, axes: dict[str, list[Any]]) -> list[str]:
    return [
        f"{spec.name} axis {axis} ({size}) became {axes[spec.name][axis]}"
        for spec in golden.inputs
        for axis, size in enumerate(spec.shape)
        if isinstance(size, str) and isinstance(axes[spec.name][axis], int)
    ]

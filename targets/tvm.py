"""TVM, compiled to a shared library for this machine's CPU and run by Relax's virtual machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from convert.errors import StageError
from convert.platforms import host_platform
from convert.records import Artifact
from convert.specs import shape_at
from convert.targets import tvm_compile
from convert.targets.base import Arrays, BuildRequest, Route, Session, Target, Tolerance
from convert.targets.casting import cast_exactly
from convert.targets.onnx import io_as_exported
from convert.targets.tvm_bucket_build import build_buckets
from convert.targets.tvm_bucket_engine import BucketEngine, Engine
from convert.targets.tvm_engine import engine_of
from convert.targets.tvm_link import lacking
from convert.targets.tvm_tuning.build import add_settings
from convert.targets.versions import installed

if TYPE_CHECKING:
    from convert.remote.place import Place
    from convert.remote.session import TimedSession

FILE = "model.so"
#: Seen when the routes were compared model by model (docs/targets.md).
PROBLEMS: Mapping[str, str] = {
    "aten.grid_sampler": "the exported-program front end gives another shape; right by onnx",
}


class Tvm(Target):
    """A shared library of compiled kernels; the device needs libtvm_runtime and libtvm_ffi beside it."""

    name: ClassVar[str] = "tvm"
    summary: ClassVar[str] = "TVM shared library (this machine's CPU, or --platform)"
    portable: ClassVar[bool] = False
    precisions: ClassVar[tuple[str, ...]] = ("float32",)
    max_opset: ClassVar[int] = 18
    runtime_toolchain: ClassVar[str] = "tvm"
    distributions: ClassVar[tuple[str, ...]] = ("apache-tvm", "apache-tvm-ffi")
    tolerance: ClassVar[Tolerance] = Tolerance(
        20.0, "TVM sums long reductions in one chain and has its own exp and tanh; measured at up to 4.4 floors"
    )

    def routes(self, precision: str) -> tuple[Route, ...]:
        """The ONNX front end first; the exported-program front end miscompiles some indexing, so it comes second.

        Several modules of fixed sizes take the most time and room, so they come last.
        """
        del precision
        return (
            Route("onnx", "tvm"),
            Route("exported-program", "tvm", needs="source", borrows="core"),
            Route("onnx-buckets", "tvm", dynamic=True),
        )

    def problem_operators(self) -> Mapping[str, str]:
        """What the front ends were seen to get wrong."""
        return PROBLEMS

    def missing(self, platform: str = "") -> str:
        """A shared library needs something to link it with."""
        from convert.emulation import find_emulation  # not in a worker, whose toolchain lacks what it needs

        emulation = find_emulation()
        return lacking(platform or host_platform(), () if emulation is None else emulation.zig)

    def _build(self, request: BuildRequest) -> Artifact:
        if request.route == "onnx-buckets":
            return _in_buckets(request)
        module = _from_program(request) if request.route == "exported-program" else graph_module(request)
        return _artifact(request, (FILE,), tvm_compile.compile_module(module, request.folder / FILE, request))

    def open(self, artifact: Artifact, folder: Path, threads: int) -> Session:
        """Load the library from its file; the thread count is read by the runtime from ``TVM_NUM_THREADS``."""
        del threads
        return TvmSession(artifact, lambda file: local_engine(folder / file))

    def open_elsewhere(self, artifact: Artifact, folder: Path, threads: int, place: Place) -> TimedSession:
        """Load the library by the runner, a small program: the place needs no Python."""
        from convert.targets.tvm_remote import TvmElsewhere

        return TvmElsewhere(artifact, folder, threads, place)


def _artifact(
    request: BuildRequest, files: tuple[str, ...], settings: Mapping[str, Any], *notes: str, **more: Any
) -> Artifact:
    cpu = settings["target"].get("mcpu", "generic")
    return Artifact(
        "tvm",
        request.precision,
        request.route,
        (*files, *tvm_compile.add_runtime(request)),
        io_as_exported(request.golden),
        request.platform,
        notes=(f"compiled for the CPU {cpu}; it may not run on another", *notes),
        versions=installed("apache-tvm", "apache-tvm-ffi", "onnx"),
        settings={**settings, **more},
    )


def _in_buckets(request: BuildRequest) -> Artifact:
    settings: dict[str, Any] = {}
    here = replace(request, platform=host_platform(), cpu="")

    foreign = bool(request.platform != here.platform or request.cpu)

    def compile_here(sizes: Mapping[str, int], file: Path) -> None:
        made = tvm_compile.compile_module(graph_module(request, sizes), file, here)
        add_settings({} if foreign else settings, made)

    def compile_there(sizes: Mapping[str, int], file: Path) -> None:
        add_settings(settings, tvm_compile.compile_module(graph_module(request, sizes), file, request))

    made = build_buckets(request, compile_here, local_engine, compile_there if foreign else None)
    return _artifact(request, made.files, settings, made.note, **made.settings)


def graph_module(request: BuildRequest, sizes: Mapping[str, int] | None = None) -> Any:
    """The graph as a module of Relax, with dynamic sizes or with ``sizes``."""
    import onnx

    from convert.targets.tvm_fixed import at_sizes
    from convert.targets.tvm_frontend import import_graph

    assert request.onnx is not None  # noqa: S101  (a route that needs onnx gets it)
    model = onnx.load(str(request.onnx))
    if sizes is not None:
        model = at_sizes(model, {spec.name: shape_at(spec, dict(sizes)) for spec in request.golden.inputs})
    return import_graph(model)


def _from_program(request: BuildRequest) -> Any:
    import torch
    from tvm.relax.frontend.torch import from_exported_program

    from convert.targets.torch_shapes import dynamic_shapes
    from convert.targets.tvm_program import normalise_indices

    if request.source is None:
        raise StageError("route exported-program needs the live module, and the source is a graph")
    source = request.source()
    shapes = (dynamic_shapes(request.golden),) if request.golden.dims else None
    with torch.no_grad():
        program = torch.export.export(source.module, source.example, dynamic_shapes=shapes)
    return from_exported_program(normalise_indices(program), keep_params_as_input=False)


def local_engine(file: Path) -> Engine:
    """The module in ``file``, held by a Relax virtual machine in this process."""
    import tvm
    from tvm import relax

    return engine_of(relax.VirtualMachine(tvm.runtime.load_module(str(file)), tvm.cpu())["main"])


class TvmSession(Session):
    """The modules of an artifact, wherever they are held, behind the source's own interface."""

    def __init__(self, artifact: Artifact, load: Callable[[str], Engine]) -> None:
        """``load`` gives the engine of one module by its file; an only one is loaded at once."""
        buckets = "buckets" in artifact.settings
        self._engine: Engine = BucketEngine(artifact.settings, load) if buckets else load(artifact.files[0])
        self._inputs = [entry for entry in artifact.io if entry.role == "input"]
        self._outputs = [entry for entry in artifact.io if entry.role == "output"]

    def run(self, feeds: Arrays) -> dict[str, Any]:
        """See :meth:`Session.run`."""
        values = self._engine([np.asarray(feeds[entry.source]) for entry in self._inputs])
        if len(values) != len(self._outputs):
            raise StageError(f"the library gave {len(values)} outputs, the source has {len(self._outputs)}")
        return {
            entry.source: cast_exactly(entry.source, value, entry.source_dtype)
            for entry, value in zip(self._outputs, values, strict=True)
        }

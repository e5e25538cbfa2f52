"""TensorRT: an engine where there is an NVIDIA GPU, else a recipe that builds and proves one on a host that has it.

Nothing here pretends to be a GPU: without one the outcome is ``deferred``, whatever the parser gate says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from convert.errors import StageError
from convert.records import Artifact
from convert.targets import trt_precision, trt_recipe
from convert.targets.base import Arrays, BuildRequest, Route, Session, Target, Tolerance
from convert.targets.onnx import io_as_exported
from convert.targets.trt_host.building import BuildRefused, build
from convert.targets.trt_host.device import NoGpu, gpu_here, mismatch, why_no_gpu
from convert.targets.trt_host.inspection import summarise
from convert.targets.trt_host.settings import EngineSettings, settings_from
from convert.targets.trt_host.timing import TimingCache
from convert.targets.versions import installed

ENGINE = "model.engine"


class TensorRT(Target):
    """A serialised TensorRT engine, bound to the GPU, driver and TensorRT version that built it."""

    name: ClassVar[str] = "trt"
    summary: ClassVar[str] = "TensorRT engine (NVIDIA GPU; a recipe where there is none)"
    precisions: ClassVar[tuple[str, ...]] = ("float32", "float16", "int8")
    max_opset: ClassVar[int] = 20
    runtime_toolchain: ClassVar[str] = "trt"
    runtime_borrows: ClassVar[str | None] = "core"  # torch holds the device's memory
    distributions: ClassVar[tuple[str, ...]] = ("tensorrt",)
    tolerance: ClassVar[Tolerance] = Tolerance(
        50.0, "not yet measured on a GPU: with TF32 off, other kernels and orders of summation are allowed for"
    )
    device: ClassVar[str] = "an NVIDIA GPU"
    gate_toolchain: ClassVar[str] = "trt-rtx"
    portable: ClassVar[bool] = False
    not_on: ClassVar[tuple[str, ...]] = ("android/arm64", "linux/arm/v7", "linux/riscv64")

    def routes(self, precision: str) -> tuple[Route, ...]:
        """The engine, for hosts with a GPU."""
        del precision
        return (Route("engine", "trt", borrows="core"),)

    def deferred_route(self) -> Route:
        """The recipe, for hosts without one."""
        return Route("recipe", "core")

    def probe(self) -> str:
        """Why no engine can be built or run here; empty where it can. Meant for a child process.

        TensorRT itself crashes without a driver, so the driver is asked first.
        """
        return why_no_gpu() or ("" if installed("tensorrt") else "TensorRT is not installed here")

    def _build(self, request: BuildRequest) -> Artifact:
        # Whatever the precision, it stands in the graph; the builder has no switch for it.
        written = trt_precision.write_precision(request)
        profiles = trt_recipe.profiles(request.golden)
        settings = settings_from(request.settings.get("engine", {}))
        kept: dict[str, Any] = {}
        if request.route == "recipe":
            files = trt_recipe.write(written.request, profiles, settings, written.cases or {})
        else:
            kept = _build_engine(written.request, profiles, settings)
            files = (ENGINE,)
        return Artifact(
            "trt",
            request.precision,
            request.route,
            files,
            io_as_exported(request.golden),
            request.platform,
            written.notes,
            installed("tensorrt", "onnx", "onnxruntime"),
            settings=kept | written.settings,
            operators=written.operators,
        )

    def open(self, artifact: Artifact, folder: Path, threads: int) -> Session:
        """Load the engine onto the GPU it was built for; ``threads`` has no meaning there."""
        del threads
        return TrtSession(folder / artifact.files[0], artifact.settings)


def _build_engine(request: BuildRequest, profiles: Any, settings: EngineSettings) -> dict[str, Any]:
    """Write the engine; gives what must be known to load it. Only runs where there is a GPU."""
    import tensorrt as trt

    assert request.onnx is not None  # noqa: S101  (a route that needs onnx gets it)
    gpu = gpu_here(trt.__version__)
    folder = request.settings.get("timing_cache")
    cache = TimingCache(Path(folder), gpu) if folder else None
    try:
        plan = build(trt, request.onnx, profiles, settings, cache)
    except BuildRefused as error:
        raise StageError(f"TensorRT's {error.step} refuses the graph: {error}") from error
    (request.folder / ENGINE).write_bytes(plan)
    return {"built_on": gpu, "hardware": settings.hardware, "flags": list(settings.flags)}


class TrtSession(Session):
    """An engine with its execution context and device buffers."""

    def __init__(self, file: Path, settings: dict[str, Any]) -> None:
        """Load ``file``, unless ``settings`` of its artifact say that it was built for another host.

        Raises:
            StageError: it was, it does not say so, or TensorRT refuses it.
        """
        if why := why_no_gpu():
            raise StageError(f"an engine needs an NVIDIA GPU, and {why}")
        import tensorrt as trt

        from convert.targets.trt_host.engine import Engine
        from convert.targets.trt_host.memory import open_memory

        require_same_host(settings, trt.__version__)
        try:
            self._engine = Engine(trt, file.read_bytes(), open_memory())
        except RuntimeError as error:
            raise StageError(str(error)) from error

    def run(self, feeds: Arrays) -> dict[str, Any]:
        """See :meth:`Session.run`."""
        return self._engine.run(dict(feeds))

    def parts(self, feeds: Arrays) -> dict[str, float]:
        """See :meth:`Session.parts`."""
        return self._engine.parts(dict(feeds))

    def inspect(self) -> dict[str, Any]:
        """See :meth:`Session.inspect`."""
        return summarise(self._engine.inspect())


def require_same_host(settings: dict[str, Any], tensorrt: str) -> None:
    """Refuse an engine that was built for another GPU or other software, before TensorRT reads a byte of it.

    Raises:
        StageError: it was, or nothing says what it was built for.
    """
    built = settings.get("built_on")
    if not built:
        raise StageError("the manifest does not say which GPU this engine was built on; build it here from its recipe")
    try:
        here = gpu_here(tensorrt)
    except NoGpu as error:
        raise StageError(f"an engine needs an NVIDIA GPU, and {error}") from error
    why = mismatch(built, here, settings.get("hardware", "none"), tuple(settings.get("flags", ())))
    if why:
        raise StageError(why)

"""TensorRT for RTX: engines that are built on the CPU for chosen GPUs, and not run here.

Another product than TensorRT: its engines run on GeForce and RTX GPUs, by its own runtime. What is built here is never
called passed, since nothing has run it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from convert.errors import StageError
from convert.records import Artifact
from convert.targets import trt_precision, trt_recipe
from convert.targets.base import BuildRequest, Route, Session, Target, Tolerance
from convert.targets.onnx import io_as_exported
from convert.targets.trt_host.building import BuildRefused, Profiles, build
from convert.targets.trt_host.settings import settings_from
from convert.targets.versions import installed

ENGINE = "model.engine"
#: Those that TensorRT for RTX 1.7 builds for, with what they are.
CAPABILITIES = {
    "sm75": "Turing",
    "sm80": "A100",
    "sm86": "GeForce RTX 30",
    "sm89": "GeForce RTX 40",
    "sm120": "GeForce RTX 50",
    "sm121": "GB10",
}
USUAL = ("sm86", "sm89", "sm120")


class TensorRTForRTX(Target):
    """One engine for every chosen compute capability, and for no other."""

    name: ClassVar[str] = "trt-rtx"
    summary: ClassVar[str] = "TensorRT for RTX engine (built on the CPU for chosen GPUs, not run)"
    precisions: ClassVar[tuple[str, ...]] = ("float32", "float16", "int8")
    max_opset: ClassVar[int] = 20
    runtime_toolchain: ClassVar[str] = "trt-rtx"
    distributions: ClassVar[tuple[str, ...]] = ("tensorrt-rtx",)
    tolerance: ClassVar[Tolerance] = Tolerance(50.0, "as for trt; no engine is run, so it is not applied")
    device: ClassVar[str] = "an NVIDIA RTX GPU"
    built_only: ClassVar[str] = "its engines are built on the CPU, and only a GPU can run them"
    portable: ClassVar[bool] = False
    not_on: ClassVar[tuple[str, ...]] = ("android/arm64", "linux/arm/v7", "linux/riscv64")

    def routes(self, precision: str) -> tuple[Route, ...]:
        """The precision is written by the tools of core, the engine is built by those of trt-rtx."""
        del precision
        return (Route("engine", "core", borrows="trt-rtx"),)

    def _build(self, request: BuildRequest) -> Artifact:
        import tensorrt_rtx as trt

        asked = request.settings.get("engine", {})
        gpus = tuple(asked.get("gpus", ())) or USUAL
        written = trt_precision.write_precision(request)
        assert written.request.onnx is not None  # noqa: S101  (a route that needs onnx gets it)
        profiles = trt_recipe.profiles(request.golden)
        plan = build_for(trt, written.request.onnx, profiles, gpus, asked.get("workspace"))
        (request.folder / ENGINE).write_bytes(plan)
        limits = {"workspace": asked["workspace"]} if asked.get("workspace") else {}
        named = ", ".join(f"{gpu} ({CAPABILITIES[gpu]})" for gpu in gpus)
        note = f"TensorRT for RTX {trt.__version__} built it for {named} and no other GPU; it was not run"
        return Artifact(
            self.name,
            request.precision,
            request.route,
            (ENGINE,),
            io_as_exported(request.golden),
            request.platform,
            (*written.notes, note),
            installed("tensorrt-rtx", "onnx", "onnxruntime"),
            settings={"gpus": list(gpus), "profiles": profiles, **limits} | written.settings,
            operators=written.operators,
        )

    def open(self, artifact: Artifact, folder: Any, threads: int) -> Session:
        """Not offered: see ``built_only``."""
        del artifact, folder, threads
        raise StageError(f"{self.name} artifacts are not run here: {self.built_only}")


def build_for(trt: Any, onnx: Any, profiles: Profiles, gpus: Sequence[str], workspace: int | None = None) -> bytes:
    """One engine for all of ``gpus``; ``workspace`` is the most bytes of scratch memory that a layer may use.

    Raises:
        StageError: one of them is refused; the message names each that is, with the reason.
    """
    try:
        return build(trt, onnx, profiles, _settings(gpus, workspace))
    except BuildRefused as error:
        if error.step == "parser" or len(gpus) == 1:
            raise StageError(_refusal(error, gpus)) from error
        # Which of them it is does not stand in the message.
        alone = {gpu: _why_not(trt, onnx, profiles, gpu, workspace) for gpu in gpus}
        refused = {gpu: why for gpu, why in alone.items() if why}
        same = len(set(refused.values())) == 1 and len(refused) == len(gpus)
        if not refused or same:
            raise StageError(_refusal(error, gpus)) from error
        parts = "; ".join(f"{gpu}: {why}" for gpu, why in refused.items())
        good = ", ".join(gpu for gpu in gpus if gpu not in refused)
        advice = f"; leave it out with --gpu {good}" if good else ""
        raise StageError(f"TensorRT for RTX does not build it for {parts}{advice}") from error


def _settings(gpus: Sequence[str], workspace: int | None) -> Any:
    return settings_from({"capabilities": [gpu.upper() for gpu in gpus], "workspace": workspace})


def _refusal(error: BuildRefused, gpus: Sequence[str]) -> str:
    where = "" if error.step == "parser" else f" for {', '.join(gpus)}"
    return f"the {error.step} of TensorRT for RTX refuses the graph{where}: {error}"


def _why_not(trt: Any, onnx: Any, profiles: Profiles, gpu: str, workspace: int | None) -> str:
    try:
        build(trt, onnx, profiles, _settings([gpu], workspace))
    except BuildRefused as error:
        return str(error)
    return ""

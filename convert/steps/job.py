"""One artifact to be made: what the build and the deferral of it share."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from convert.context import Context, Say
from convert.emulation import find_emulation
from convert.platforms import folder_of, host_platform
from convert.providers import TARGET
from convert.records import Artifact, Golden, Outcome, RouteResult, Status
from convert.records_tuning import Tuning
from convert.steps.export import Graph
from convert.steps.places import Where
from convert.steps.prove import Proof
from convert.targets.base import Route, Target
from convert.toolchain_env import cache_root


@dataclass(frozen=True)
class Built:
    """An outcome with the artifact and folder behind it, where there are any."""

    outcome: Outcome
    artifact: Artifact | None = None
    folder: Path | None = None


@dataclass
class Attempts:
    """What was tried for one artifact."""

    results: list[RouteResult] = field(default_factory=list)
    proofs: list[Proof] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    #: Of those whose quality missed a gate: ``convert.steps.quality.Assessment``.
    assessments: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Job:
    """One artifact to be made.

    Attributes:
        kept: layers of an integer artifact that stay in float.
        trial: name of a trial, one of several artifacts of this target and precision; what it leaves is kept aside.
        where: the platform that it is for, and where it is proven.
    """

    context: Context
    golden: Golden
    graphs: tuple[Graph, ...]
    export_failure: str
    target: Target
    precision: str
    say: Say
    kept: tuple[str, ...] = ()
    trial: str = ""
    where: Where = field(default_factory=lambda: Where(host_platform()))

    @property
    def label(self) -> str:
        """As it stands in progress lines and names of logs."""
        foreign = "" if self.where.platform == host_platform() else self.where.platform.replace("/", "-")
        return "-".join(part for part in (self.target.name, self.precision, foreign, self.trial) if part)

    @property
    def provider(self) -> str:
        """What its artifact must run on: a key of ``convert.providers.PROVIDERS``."""
        return self.context.options.provider if self.target.name == TARGET else "cpu"

    @property
    def final(self) -> Path:
        """Where its files go once it is proven."""
        if self.trial:
            return self.context.work / "trials" / self.label
        return self.context.folder / folder_of(self.target.name, self.precision, self.where.platform)

    def outcome(self, status: Status, stage: str, reason: str, **more: Any) -> Outcome:
        """The last word on this artifact."""
        given = {"proven": self.where.proven} | more if more.get("checks") else more
        return Outcome(self.target.name, self.precision, self.where.platform, status, stage, reason, **given)


def build_args(job: Job, route: Route, graph: Graph | None, base: Built | None, folder: Path) -> dict[str, Any]:
    """The arguments of the ``build`` stage."""
    context = job.context
    args: dict[str, Any] = {
        "target": job.target.name,
        "precision": job.precision,
        "route": route.name,
        "ref": context.options.ref,
        "golden": job.golden,
        "golden_folder": str(context.golden_folder),
        "folder": str(folder),
        "onnx": str(graph.file) if graph else None,
        "fixed": route.name == "litert-torch",
        "keep": job.kept,
        "quantization": context.quantization,
        "settings": {
            "calibration_cache": str(cache_root() / "calibration"),
            "engine": context.options.engine,
            "timing_cache": str(cache_root() / "timing"),
            "provider": job.provider,
            "tuning": tuning_databases(context.options.tuning),
            **cross_settings(),
        },
        "platform": job.where.platform,
        "cpu": context.options.cpus.get(job.where.platform, ""),
    }
    if route.needs == "base" and base is not None:
        args |= {"base": base.artifact, "base_folder": str(base.folder)}
    return args


def tuning_databases(tuning: Tuning) -> dict[str, Any]:
    """Where tuned kernels are taken from."""
    return {"folder": str(tuning_folder()), "file": tuning.database} if tuning.use else {}


def tuning_folder() -> Path:
    """Where tuned kernels are kept: a file for each CPU and version of TVM."""
    return cache_root() / "tuning"


def cross_settings() -> dict[str, Any]:
    """What building for other platforms can use of the toolchain that brings it; a worker cannot look for itself."""
    emulation = find_emulation()
    if emulation is None:
        return {}
    libraries = {name: str(path) for name, path in emulation.runtime_libraries.items()}
    return {"zig": list(emulation.zig), "runtime_libraries": {"linux/arm64": libraries}}


def keep(job: Job, folder: Path, files: Sequence[str]) -> Path:
    """Move the artifact's own files to their final place; whatever else the toolkit left is dropped."""
    final = job.final
    for name in files:
        (final / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / name, final / name)
    return final

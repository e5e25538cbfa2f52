"""What every target is: metadata, a build, and a session that speaks the source's own language.

To add a target, write one file beside this one with a subclass of :class:`Target`, and add one line to ``TARGETS`` in
``targets/__init__.py``. Toolkits are imported inside the methods only: the command line reads the metadata without
any of them, and a worker imports just the one that it needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from convert.errors import StageError
from convert.platforms import host_platform
from convert.records import Artifact, Golden, Layer, Quantization
from convert.records_engine import Placement

if TYPE_CHECKING:
    import numpy as np

    from convert.remote.place import Place
    from convert.remote.session import TimedSession

Arrays = Mapping[str, "np.ndarray[Any, Any]"]


@dataclass(frozen=True)
class Route:
    """One way to build an artifact.

    Attributes:
        name: as it stands in the report.
        toolchain: environment whose Python runs the build.
        needs: ``onnx`` (an exported graph), ``source`` (the live module) or ``base`` (the artifact of the precision
            that this one is derived from).
        borrows: a second toolchain whose packages come after the first one's on the path.
        dynamic: it is for models with dynamic sizes, and is not tried where every size is fixed.
    """

    name: str
    toolchain: str
    needs: str = "onnx"
    borrows: str | None = None
    dynamic: bool = False


class CalibrationData(Protocol):
    """Inputs that a model really gets. Every iteration starts anew; batches are read one at a time."""

    #: The values were drawn at random, so that ranges and accuracy mean nothing.
    random: bool

    @property
    def key(self) -> str:
        """Hash of the data and of how they are read; equal keys mean equal batches."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Feeds of the source: each input name with an array of its own dtype, dynamic dimensions at their optimum."""


@dataclass(frozen=True)
class BuildRequest:
    """What a build gets.

    Attributes:
        folder: where the files go; exists and is empty.
        scratch: a folder for whatever the toolkit leaves behind.
        onnx: the exported graph, for routes that need it.
        base: folder of the artifact that this precision is derived from, and its record.
        source: makes the live module and example inputs (dynamic dimensions at ``dims``); for ``source`` routes.
        golden_folder: the cases of ``golden`` lie here, for a build that must probe what it made.
        calibration: real inputs; None where the user gave none.
        quantization: what was asked for integer artifacts.
        keep: layers that stay in float, by the names of :meth:`Target.sensitivity`.
        ranges: learned in training, as ``convert.qat.save`` wrote them; None without.
        platform: what the artifact is for, as ``os/arch``.
        cpu: the CPU of it to make code for; empty for the platform's default, on this host for its own.
    """

    target: str
    precision: str
    route: str
    golden: Golden
    golden_folder: Path
    folder: Path
    scratch: Path
    onnx: Path | None = None
    base: Artifact | None = None
    base_folder: Path | None = None
    source: Callable[[], Any] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    calibration: CalibrationData | None = None
    quantization: Quantization = field(default_factory=Quantization)
    keep: tuple[str, ...] = ()
    ranges: Mapping[str, Any] | None = None
    platform: str = field(default_factory=host_platform)
    cpu: str = ""


class Session(ABC):
    """A loaded artifact. Feeds and results carry the source's names, layout and dtypes."""

    notes: tuple[str, ...] = ()
    #: Where the operators ran, where that is not known beforehand; None until then.
    placement: Placement | None = None

    @abstractmethod
    def run(self, feeds: Arrays) -> dict[str, Any]:
        """Run once. ``feeds`` maps each input name to an array; returns each output name with its array."""

    def parts(self, feeds: Arrays) -> dict[str, float]:
        """Where the time of a run goes on hardware of its own: the fields of ``GpuTimes``; empty on the CPU."""
        del feeds
        return {}

    def inspect(self) -> dict[str, Any]:
        """What the loaded artifact consists of: the fields of ``EngineSummary``; empty where nobody can say."""
        return {}

    def close(self) -> None:  # noqa: B027  (most sessions hold nothing that must be given back)
        """Give back what the session holds."""


@dataclass(frozen=True)
class Tolerance:
    """How far an artifact of a target may be from the truth, with the reason.

    Attributes:
        floors: multiple of the source's own noise floor.
        reason: why this multiple.
    """

    floors: float
    reason: str


class Target(ABC):
    """One runtime. Class attributes are read without any toolkit; ``build`` and ``open`` run in a worker."""

    name: ClassVar[str]
    summary: ClassVar[str]
    precisions: ClassVar[tuple[str, ...]]
    max_opset: ClassVar[int]
    runtime_toolchain: ClassVar[str]
    #: A second toolchain that sessions need packages of; None for none.
    runtime_borrows: ClassVar[str | None] = None
    distributions: ClassVar[tuple[str, ...]]
    tolerance: ClassVar[Tolerance]
    #: The hardware that artifacts run on, in words, where this host may lack it; empty for the CPU.
    device: ClassVar[str] = ""
    #: Why artifacts are built here and cannot be run here even so; empty where they can.
    built_only: ClassVar[str] = ""
    #: The same files serve every platform; False where each platform has an artifact of its own.
    portable: ClassVar[bool] = True
    #: Platforms that the runtime does not exist on.
    not_on: ClassVar[tuple[str, ...]] = ()
    #: A toolchain that can say beforehand whether a deferred artifact is likely to build; empty for none.
    gate_toolchain: ClassVar[str] = ""

    @abstractmethod
    def routes(self, precision: str) -> tuple[Route, ...]:
        """The ways to build ``precision``, best first."""

    def base_precision(self, precision: str) -> str | None:
        """The precision whose passed artifact this one is made from, or None."""
        del precision
        return None

    def missing(self, platform: str = "") -> str:
        """What this host lacks besides the toolchain to build for ``platform``; empty for nothing.

        Args:
            platform: as ``os/arch``; empty for this host.
        """
        del platform
        return ""

    def sensitivity(self, request: BuildRequest) -> tuple[Layer, ...]:
        """The layers of an integer artifact by the noise that each alone adds, worst first. Runs in a worker.

        Raises:
            StageError: this target cannot keep single layers in float.
        """
        raise StageError(f"{self.name} cannot keep single layers in float at precision {request.precision}")

    def problem_operators(self) -> Mapping[str, str]:
        """Operators that are known to come out wrong or to fail although the toolkit says that it knows them.

        What a toolkit does not know at all it is asked itself.

        Returns:
            Name of an operator, as torch (``aten.lstm``) or ONNX (``LSTM``) calls it -> what goes wrong, and the
            route that works.
        """
        return {}

    def probe(self) -> str:
        """Why :attr:`device` cannot be used here; empty where it can. Runs in a child process."""
        return ""

    def deferred_route(self) -> Route:
        """The route that prepares an artifact for a host with the device."""
        raise StageError(f"{self.name} cannot be deferred to another host")

    def build(self, request: BuildRequest) -> Artifact:
        """Build, then verify what no back end may get wrong: files are there and the interface is whole.

        Raises:
            StageError: the toolkit gave no file, an empty one, or lost an input or output.
        """
        artifact = self._build(request)
        if not artifact.files:
            raise StageError(f"{request.route} said it was done but named no file")
        for name in artifact.files:
            path = request.folder / name
            if not path.is_file() or path.stat().st_size == 0:
                raise StageError(f"{request.route} said it was done but left no {name}")
        _require_whole_interface(artifact, request.golden)
        return artifact

    @abstractmethod
    def _build(self, request: BuildRequest) -> Artifact:
        """Write the artifact into ``request.folder``."""

    @abstractmethod
    def open(self, artifact: Artifact, folder: Path, threads: int) -> Session:
        """Load ``artifact`` from ``folder``, as its users would, with ``threads`` intra-operator threads."""

    def open_elsewhere(self, artifact: Artifact, folder: Path, threads: int, place: Place) -> TimedSession:
        """Load ``artifact`` in ``place``: here by :meth:`open` itself, which the place's own Python calls.

        Raises:
            StageError: it does not load there.
        """
        from convert.remote.python import serve_in

        return serve_in(place, artifact, folder, threads)


def _require_whole_interface(artifact: Artifact, golden: Golden) -> None:
    for role, wanted in (("input", golden.inputs), ("output", golden.outputs)):
        have = {entry.source for entry in artifact.io if entry.role == role}
        lost = [spec.name for spec in wanted if spec.name not in have]
        if lost:
            raise StageError(f"the artifact lost {role} {', '.join(lost)} of the source")

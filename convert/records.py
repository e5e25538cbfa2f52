"""The records that flow through the pipeline: frozen, serialisable, without behaviour of their own.

Everything a stage hands to the next one, everything a worker sends home and everything that stands in
``report.json`` is one of these. They import nothing but the standard library and one another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from convert.records_engine import EngineSummary, Gate, Gpu, GpuTimes, Placement

SCHEMA_VERSION = 1


class Kind(StrEnum):
    """What a model file is, found by its content."""

    TORCHSCRIPT = "torchscript"
    EXPORTED = "exported-program"
    STATE_DICT = "state-dict"
    PICKLE = "pickled-module"
    ONNX = "onnx"
    FACTORY = "factory"


class Status(StrEnum):
    """How an artifact ended."""

    PASSED = "passed"
    FAILED = "failed"
    DEFERRED = "deferred"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Dim:
    """A dynamic dimension: its name and the smallest, usual and largest value it must work at."""

    name: str
    min: int
    opt: int
    max: int


@dataclass(frozen=True)
class InputSpec:
    """One input tensor.

    Attributes:
        shape: an int is a fixed size, a string is the name of a dynamic dimension.
        dtype: numpy name, such as ``float32`` or ``int64``.
        low, high: inclusive range of valid values of an integer input; None if not stated.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class OutputSpec:
    """One output tensor of the source.

    Attributes:
        shape: a dynamic dimension's name where a size follows one exactly, -1 where it changes in another way.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class ModelRef:
    """Where the source model is and how it may be loaded.

    Attributes:
        path: the file, or the file / module of a factory.
        factory: name of the function or class that makes the module, for factories and state dicts.
        factory_file: file or module the factory lies in when ``path`` is a checkpoint.
        trust_pickle: the user allowed code in the file to run.
        code: folders with the user's own modules, first on the import path of what loads the model.
        constants: arguments of ``forward`` that are fixed, as the ``NAME=LITERAL`` of ``--constant``.
    """

    path: str
    kind: Kind
    factory: str | None = None
    factory_file: str | None = None
    trust_pickle: bool = False
    code: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()


@dataclass(frozen=True)
class Floor:
    """The rounding noise of the source itself on one output of one case.

    Attributes:
        scale: largest finite absolute value of the output.
        max_error, rms_error: distance of the source in its own precision from the float64 truth, over the elements
            finite in both; None where the truth could not be computed.
        half_max, half_rms: the same for the source run in float16; None where it could not run or overflowed.
    """

    scale: float
    max_error: float | None
    rms_error: float | None
    half_max: float | None = None
    half_rms: float | None = None


@dataclass(frozen=True)
class Case:
    """One set of inputs with the source's outputs.

    Attributes:
        name: stable and readable, such as ``min-draw0``.
        origin: ``draw``, ``edge`` or ``sample``.
        dims: value of every dynamic dimension.
        seed: seed of the draw; None for samples and edges.
        file: ``.npz`` below the golden folder with keys ``in:NAME``, ``out:NAME`` and ``truth:NAME`` (float64).
        floors: output name -> noise floor, for floating outputs.
    """

    name: str
    origin: str
    dims: dict[str, int]
    seed: int | None
    file: str
    floors: dict[str, Floor] = field(default_factory=dict)


@dataclass(frozen=True)
class Golden:
    """The source, run once: its interface, its outputs and its noise floor. Every artifact is compared with this."""

    kind: Kind
    module: str
    parameters: int
    parameter_bytes: int
    inputs: tuple[InputSpec, ...]
    dims: tuple[Dim, ...]
    outputs: tuple[OutputSpec, ...]
    cases: tuple[Case, ...]
    truth: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class IoEntry:
    """How one tensor of the source appears in an artifact.

    Attributes:
        source: the source's own name.
        role: ``input`` or ``output``.
        name, dtype, shape: what the artifact calls it and takes or gives (-1 for a dynamic size).
        layout: ``same`` as the source, or the axes of the source in the artifact's order, such as ``0,2,3,1``.
        source_dtype: the source's own dtype, where it differs (int64 in, int32 in a TFLite file).
        scale, zero_point: the source's float is ``(integer - zero_point) * scale``; None where the artifact has floats
            as the source has.
    """

    source: str
    role: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str = "same"
    source_dtype: str = ""
    scale: float | None = None
    zero_point: int | None = None


@dataclass(frozen=True)
class FileRecord:
    """A file of the output folder; ``path`` is relative to that folder, with forward slashes."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Check:
    """One comparison of one output of one case (or of a whole artifact when ``output`` is empty).

    Attributes:
        rule: what was compared and where the limit comes from, in words.
        figure: largest absolute error, or the figure that the rule speaks of.
        limit: the largest figure that passes.
        passed: the verdict; nothing but True passes.
        detail: why it failed, or what is worth knowing.
    """

    case: str
    output: str
    rule: str
    figure: float
    limit: float
    passed: bool
    dims: dict[str, int] = field(default_factory=dict)
    rms: float | None = None
    floors: float | None = None
    detail: str = ""


@dataclass(frozen=True)
class Latency:
    """Times of one artifact at one shape, in milliseconds, measured interleaved with its references.

    Attributes:
        ratio_to_onnxruntime, ratio_to_eager: median over rounds of the ratio of the round's medians; below 1 is
            faster than the reference. None where the reference could not run.
        ratio_spread_*: the 10th and 90th percentile of that ratio over the rounds.
        peak_memory_mib: largest resident set of the process that ran the artifact, its toolkit included.
        warnings: what makes the figures less trustworthy.
        gpu: the parts of a run, where it ran on a GPU.
    """

    threads: int
    dims: dict[str, int]
    samples: int
    rounds: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    throughput_per_s: float
    peak_memory_mib: float
    ratio_to_onnxruntime: float | None
    ratio_to_eager: float | None
    ratio_spread_onnxruntime: tuple[float, ...] = ()
    ratio_spread_eager: tuple[float, ...] = ()
    warnings: tuple[str, ...] = ()
    gpu: GpuTimes | None = None


@dataclass(frozen=True)
class Quantization:
    """How integer artifacts are made: what the user asked for, the same for all targets.

    Attributes:
        calibration: file, folder, ``file.py:function`` or the word ``random``; None without calibration data.
        evaluation: held-out data in the same forms, for quality and metric; None for the calibration data.
        preprocess: ``file.py:function`` for a folder of images.
        limit: at most so many samples of the data; None for all.
        rule: how a range follows from the values of a tensor: ``minmax``, ``percentile`` or ``mse``.
        percentile: share of the values that a range holds, in percent, for that rule.
        io_type: ``float`` (the artifact takes and gives floats) or ``int8`` (it takes and gives the integers).
        require_full_integer: one operator that computes in float is a failure.
        auto_mixed: keep the fewest layers in float that meet the gates.
        least_sqnr: lowest signal-to-quantization-noise ratio of any output, in dB; None for the precision's own.
        metric: ``file.py:function``, from predictions and data to one number, larger is better; None for none.
        max_drop: how much lower than the source's the metric may be.
        stored: folder with the data as this run has read them; None where they are read from ``calibration`` itself.
    """

    calibration: str | None = None
    evaluation: str | None = None
    preprocess: str | None = None
    limit: int | None = None
    rule: str = "minmax"
    percentile: float = 99.99
    io_type: str = "float"
    require_full_integer: bool = False
    auto_mixed: bool = False
    least_sqnr: float | None = None
    metric: str | None = None
    max_drop: float | None = None
    stored: str | None = None


@dataclass(frozen=True)
class Operators:
    """What an artifact computes in integers and what in float, read back from its file: operator -> how often."""

    integer: dict[str, int]
    floating: dict[str, int]


@dataclass(frozen=True)
class Quality:
    """How near one output of an artifact is to the source's on real data.

    Attributes:
        samples: number of samples compared.
        sqnr_db: ratio of the signal to the quantization noise; larger is better.
        agreement: share of samples whose first class is the source's, of integer outputs that of equal elements; None
            for other outputs.
    """

    output: str
    samples: int
    sqnr_db: float
    cosine: float
    max_error: float
    agreement: float | None = None


@dataclass(frozen=True)
class Score:
    """The user's own metric on the source and on an artifact, over the same samples."""

    metric: str
    samples: int
    source: float
    artifact: float
    max_drop: float | None
    passed: bool


@dataclass(frozen=True)
class Layer:
    """One layer of a sensitivity run: how much noise it adds when it alone is quantized.

    Attributes:
        name: the artifact's own name of it (its output tensor or node).
        operator: its kind.
        noise: root mean square of the error that it adds to the outputs, as a share of their own.
    """

    name: str
    operator: str
    noise: float


@dataclass(frozen=True)
class Mixed:
    """What ``--auto-mixed`` did: layers by the noise they add, worst first, and the curve of what keeping them gains.

    Attributes:
        kept: the layers left in float.
        curve: (number of layers kept, lowest SQNR of any output in dB) for every artifact that was tried.
    """

    layers: tuple[Layer, ...]
    kept: tuple[str, ...]
    curve: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Device:
    """A device that artifacts were proven on, as it was when it was asked.

    Attributes:
        name: as the user wrote it.
        platform: as ``os/arch``.
        cpu, governor: empty where they cannot be read.
        temperature: of its first sensor, in degrees Celsius; None where it cannot be read.
    """

    name: str
    platform: str
    cpu: str = ""
    governor: str = ""
    temperature: float | None = None


@dataclass(frozen=True)
class Proven:
    """Where an artifact was checked, when not on the host and natively.

    Attributes:
        how: ``emulated`` or ``device``.
        place: in words.
        device: what it is; None under emulation.
    """

    how: str
    place: str
    device: Device | None = None


@dataclass(frozen=True)
class RouteResult:
    """One way that was tried to make an artifact or the ONNX file, and what came of it."""

    route: str
    status: Status
    stage: str
    reason: str
    seconds: float
    log: str = ""
    worst_error: float | None = None


@dataclass(frozen=True)
class Artifact:
    """What a build left behind: files (relative to its folder), the main one first, and how to talk to them."""

    target: str
    precision: str
    route: str
    files: tuple[str, ...]
    io: tuple[IoEntry, ...]
    platform: str = "linux/amd64"
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    operators: Operators | None = None


@dataclass(frozen=True)
class Outcome:
    """The last word on one target at one precision.

    Attributes:
        gate: what was said beforehand of an artifact that cannot be run here.
        gpu: what the artifact was built and checked on.
        engine: what it consists of.
        placement: where its operators ran.
    """

    target: str
    precision: str
    platform: str
    status: Status
    stage: str
    reason: str
    advice: str = ""
    route: str = ""
    seconds: float = 0.0
    files: tuple[FileRecord, ...] = ()
    io: tuple[IoEntry, ...] = ()
    checks: tuple[Check, ...] = ()
    latency: Latency | None = None
    latency_reason: str = ""
    routes: tuple[RouteResult, ...] = ()
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    operators: Operators | None = None
    quality: tuple[Quality, ...] = ()
    score: Score | None = None
    mixed: Mixed | None = None
    proven: Proven | None = None
    gate: Gate | None = None
    gpu: Gpu | None = None
    engine: EngineSummary | None = None
    placement: Placement | None = None


@dataclass(frozen=True)
class ExportRecord:
    """The ONNX step: which routes were tried, which was taken, and what the file says of itself."""

    status: Status
    route: str
    opset: int
    reason: str
    routes: tuple[RouteResult, ...]
    dynamic_axes: dict[str, tuple[int | str, ...]] = field(default_factory=dict)
    simplified: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """Everything about one run; the table, JSON and Markdown are renderings of it."""

    schema_version: int
    convert_version: str
    created: str
    command: tuple[str, ...]
    options: dict[str, Any]
    host: dict[str, Any]
    toolchains: dict[str, dict[str, str]]
    model: dict[str, Any]
    golden: Golden
    export: ExportRecord
    artifacts: tuple[Outcome, ...]
    files: tuple[FileRecord, ...]
    seconds: dict[str, float]
    exit_code: int

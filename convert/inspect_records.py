"""What ``convert inspect`` finds; ``--json`` writes one :class:`Inspection`, the table is another rendering of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from convert.records import Dim, InputSpec, Kind, OutputSpec

INSPECT_SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Operator:
    """How often an operator stands in the model.

    Attributes:
        name: ``aten.conv2d`` (without its overload), or an ONNX operator such as ``Conv``.
        custom: it belongs to neither torch itself nor ONNX.
    """

    name: str
    count: int
    custom: bool = False


@dataclass(frozen=True)
class Flops:
    """Floating point operations of one call; a multiplication with an addition is two.

    Attributes:
        total: of matrix products, convolutions and attention; other operators are not counted.
        dims: value of every dynamic dimension that it was counted at.
        by_operator: the same per operator.
    """

    total: int
    dims: dict[str, int]
    by_operator: dict[str, int]


@dataclass(frozen=True)
class Randomness:
    """Whether two calls on the same inputs give the same.

    Attributes:
        operators: those that draw random numbers, with how often.
        repeatable: None where the source was not run.
        reason: the sentence that a conversion would end with; empty where there is none.
    """

    operators: dict[str, int] = field(default_factory=dict)
    repeatable: bool | None = None
    reason: str = ""


@dataclass(frozen=True)
class ControlFlow:
    """Where ``torch.export`` found a branch or loop that depends on the values of the inputs.

    Attributes:
        error: torch's own word for it.
        file, line, code: the place in the user's code; empty and 0 where torch does not say.
    """

    error: str
    file: str = ""
    line: int = 0
    code: str = ""


@dataclass(frozen=True)
class RouteAnswer:
    """What a converter says of the model's operators before anything is converted.

    Attributes:
        takes_all: whether it knows every operator; None where it was not asked.
        lacking: the operators that it does not know, as it calls them after its own decompositions.
        reason: why it was not asked, or cannot take the model at all.
    """

    route: str
    takes_all: bool | None
    lacking: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Problem:
    """An operator of the model that is known to come out wrong, or to fail, in a target although a converter knows it.

    Attributes:
        reason: what goes wrong, and the route that works.
    """

    operator: str
    count: int
    reason: str


@dataclass(frozen=True)
class TargetView:
    """One target: what its routes say, and what is known of single operators."""

    target: str
    routes: tuple[RouteAnswer, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def works_by(self) -> tuple[str, ...]:
        """The routes that know every operator."""
        return tuple(answer.route for answer in self.routes if answer.takes_all)


@dataclass(frozen=True)
class Inspection:
    """All that can be said of a model without converting it.

    Attributes:
        path, kind, module: the file, what it is, and the class of the module in it.
        file_bytes: size of the file; 0 for a module made by code.
        parameters, parameter_bytes, buffers, buffer_bytes: numbers and bytes.
        arguments: what ``forward`` can be given, in order.
        inputs, dims, outputs: the interface; empty where the inputs are not known.
        layers: class name -> how many modules of that class have no modules in them.
        operators, operators_from: counts, and what they were counted in; empty where nothing was.
        flops: None where they were not counted.
        state: buffers and attributes that ``forward`` updates.
        control_flow: None where torch found none or could not be asked.
        targets: one view per target.
        missing: what could not be found out, each with the reason and what to do.
        notes: what is worth knowing.
    """

    schema_version: int
    convert_version: str
    path: str
    kind: Kind
    module: str
    file_bytes: int
    parameters: int
    parameter_bytes: int
    buffers: int
    buffer_bytes: int
    arguments: tuple[str, ...] = ()
    inputs: tuple[InputSpec, ...] = ()
    dims: tuple[Dim, ...] = ()
    outputs: tuple[OutputSpec, ...] = ()
    layers: dict[str, int] = field(default_factory=dict)
    operators: tuple[Operator, ...] = ()
    operators_from: str = ""
    flops: Flops | None = None
    randomness: Randomness = Randomness()
    state: tuple[str, ...] = ()
    control_flow: ControlFlow | None = None
    targets: tuple[TargetView, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Questions:
    """Operators to ask converters about that lie in other toolchains than the model's.

    Attributes:
        onnx: operators of the ONNX graph that the routes from ONNX start from; None where there is no graph.
        program: operators of the exported program after torch's standard decompositions; None where there is none.
        why_no_onnx, why_no_program: the reasons.
    """

    onnx: tuple[str, ...] | None
    program: tuple[str, ...] | None
    why_no_onnx: str = ""
    why_no_program: str = ""


@dataclass(frozen=True)
class Found:
    """What the worker with torch sends home."""

    inspection: Inspection
    questions: Questions
    answers: dict[str, tuple[RouteAnswer, ...]]

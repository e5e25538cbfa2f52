"""From an ONNX graph to a serialised engine; every refusal comes with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .logs import make_log, reason_in
from .settings import FLAGS, HARDWARE, EngineSettings

#: Input name -> ``min``, ``opt`` and ``max`` shape, for inputs with dynamic sizes.
Profiles = dict[str, dict[str, list[int]]]


@dataclass(frozen=True)
class Fault:
    """What the parser has against one node; ``node`` and ``operator`` are empty for the builder."""

    reason: str
    node: str = ""
    operator: str = ""

    def __str__(self) -> str:
        """As it stands in a message."""
        return f"node {self.node or '?'} ({self.operator}): {self.reason}" if self.operator else self.reason


class BuildRefused(RuntimeError):
    """The parser or the builder gave no engine."""

    def __init__(self, step: str, faults: list[Fault]) -> None:
        """Name the step, ``parser`` or ``builder``, and everything that it has against the graph."""
        super().__init__("; ".join(map(str, faults)))
        self.step = step
        self.faults = faults


def build(trt: Any, onnx: Path, profiles: Profiles, settings: EngineSettings, cache: Any = None) -> bytes:
    """Parse and build.

    Args:
        trt: the module ``tensorrt`` or ``tensorrt_rtx``.
        onnx: the graph, precision written in; its weights may lie beside it.
        profiles: the ranges of the dynamic inputs.
        settings: what the builder is told.
        cache: has ``use(config)`` and ``keep(config)``, for the timing cache; None for none.

    Returns:
        The serialised engine.

    Raises:
        BuildRefused: no engine came of it.
    """
    log = make_log(trt)
    builder = trt.Builder(log)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, log)
    if not parser.parse_from_file(str(onnx)):
        raise BuildRefused("parser", parser_faults(parser) or [Fault(reason_in(log.errors) or "no reason was given")])
    config = builder.create_builder_config()
    _configure(trt, config, settings)
    _add_profiles(builder, config, profiles, log)
    if cache is not None:
        cache.use(config)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise BuildRefused("builder", [Fault(reason_in(log.errors) or "it gave no engine and no reason")])
    if cache is not None:
        cache.keep(config)
    return bytes(plan)


def parser_faults(parser: Any) -> list[Fault]:
    """Every error of an ONNX parser."""
    errors = [parser.get_error(index) for index in range(parser.num_errors)]
    return [Fault(_reason(error, parser), error.node_name(), error.node_operator() or "?") for error in errors]


def _reason(error: Any, parser: Any) -> str:
    """What the parser says; of an operator that it does not have, that is the bare word ``false``."""
    said, operator = " ".join(error.desc().split()), error.node_operator() or ""
    return said if said != "false" or parser.supports_operator(operator) else unknown_operator(operator)


def unknown_operator(operator: str) -> str:
    """The reason against a node whose operator the parser does not have."""
    return f"the parser has no operator {operator}"


def _configure(trt: Any, config: Any, settings: EngineSettings) -> None:
    # On by default, and far from float32.
    config.clear_flag(trt.BuilderFlag.TF32)
    # The inspector names layers, tactics and precisions only then.
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    if settings.workspace is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, settings.workspace)
    for name in settings.flags:
        config.set_flag(getattr(trt.BuilderFlag, FLAGS[name]))
    if settings.hardware != "none":
        config.hardware_compatibility_level = getattr(trt.HardwareCompatibilityLevel, HARDWARE[settings.hardware])
    if settings.capabilities:
        config.num_compute_capabilities = len(settings.capabilities)
        for index, name in enumerate(settings.capabilities):
            if not config.set_compute_capability(getattr(trt.ComputeCapability, name), index):
                raise BuildRefused("builder", [Fault(f"it does not build for {name}")])


def _add_profiles(builder: Any, config: Any, profiles: Profiles, log: Any) -> None:
    if not profiles:
        return
    profile = builder.create_optimization_profile()
    for name, shapes in profiles.items():
        try:
            profile.set_shape(name, tuple(shapes["min"]), tuple(shapes["opt"]), tuple(shapes["max"]))
        except (ValueError, TypeError, RuntimeError) as error:  # shapes of different lengths, and the like
            raise BuildRefused("builder", [Fault(f"profile of input {name}: {error}")]) from error
    if config.add_optimization_profile(profile) < 0:
        raise BuildRefused("builder", [Fault(reason_in(log.errors) or "it does not take the optimization profile")])

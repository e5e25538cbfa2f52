"""The calls of TensorRT 11 that are used, over onnxruntime on the CPU. See README.md: this is no TensorRT.

A test holds every name here against the real TensorRT for RTX, so that the stand-in cannot offer what does not exist.
"""

from __future__ import annotations

import ctypes
import enum
import json
import os
from typing import Any

import numpy as np
import onnx
import onnxruntime

__version__ = os.environ.get("STANDIN_TENSORRT", "11.4.0.1")
_MARK = b"STAND-IN ENGINE\n"


class ILogger:
    class Severity(enum.Enum):
        INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = range(5)

    def __init__(self) -> None:
        self.started = True


class TensorIOMode(enum.Enum):
    NONE, INPUT, OUTPUT = range(3)


class TensorLocation(enum.Enum):
    DEVICE, HOST = range(2)


class BuilderFlag(enum.Enum):
    TF32, REFIT, STRIP_PLAN, VERSION_COMPATIBLE = range(4)


class HardwareCompatibilityLevel(enum.Enum):
    NONE, AMPERE_PLUS, SAME_COMPUTE_CAPABILITY = range(3)


class MemoryPoolType(enum.Enum):
    WORKSPACE = 0


class ProfilingVerbosity(enum.Enum):
    LAYER_NAMES_ONLY, NONE, DETAILED = range(3)


class LayerInformationFormat(enum.Enum):
    ONELINE, JSON = range(2)


def nptype(dtype: Any) -> Any:
    return dtype


def _error(log: Any, text: str) -> None:
    assert log.started, "the logger's own __init__ was not called"
    log.log(ILogger.Severity.ERROR, f"IStandIn::call: Error Code 4: API Usage Error ({text}. In f at /_src/x.cpp:1)")


class INetworkDefinition:
    model: Any = None


class ParserError:
    def __init__(self, node: str, operator: str, text: str) -> None:
        self._said = (node, operator, text)

    def node_name(self) -> str:
        return self._said[0]

    def node_operator(self) -> str:
        return self._said[1]

    def desc(self) -> str:
        return self._said[2]


class OnnxParser:
    def __init__(self, network: INetworkDefinition, log: Any) -> None:
        self._network, self._log = network, log
        self._errors: list[ParserError] = []

    @property
    def num_errors(self) -> int:
        return len(self._errors)

    def get_error(self, index: int) -> ParserError:
        return self._errors[index]

    def parse_from_file(self, path: str) -> bool:
        model = onnx.load(path)
        refused = [node for node in model.graph.node if node.op_type == os.environ.get("STANDIN_REFUSES")]
        self._errors = [ParserError(node.name, node.op_type, "the stand-in refuses it") for node in refused]
        self._network.model = model
        return not refused


class ITimingCache:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def serialize(self) -> bytes:
        return self.data + b"measured;"


class IBuilderConfig:
    profiling_verbosity: Any = None
    hardware_compatibility_level: Any = HardwareCompatibilityLevel.NONE

    def __init__(self) -> None:
        self.flags = {BuilderFlag.TF32}
        self.profiles: list[Any] = []
        self.limits: dict[Any, int] = {}
        self._cache: ITimingCache | None = None

    def set_flag(self, flag: BuilderFlag) -> None:
        self.flags.add(flag)

    def clear_flag(self, flag: BuilderFlag) -> None:
        self.flags.discard(flag)

    def set_memory_pool_limit(self, pool: MemoryPoolType, size: int) -> None:
        self.limits[pool] = size

    def add_optimization_profile(self, profile: Any) -> int:
        self.profiles.append(profile)
        return len(self.profiles) - 1

    def create_timing_cache(self, data: bytes) -> ITimingCache:
        return ITimingCache(data)

    def set_timing_cache(self, cache: ITimingCache, ignore_mismatch: bool) -> bool:
        self._cache = cache
        return not ignore_mismatch

    def get_timing_cache(self) -> ITimingCache | None:
        return self._cache


class IOptimizationProfile:
    def __init__(self) -> None:
        self.shapes: dict[str, Any] = {}

    def set_shape(self, name: str, low: Any, usual: Any, high: Any) -> None:
        self.shapes[name] = (list(low), list(usual), list(high))


class Builder:
    def __init__(self, log: Any) -> None:
        self._log = log

    def create_network(self, flags: int) -> INetworkDefinition:
        assert flags == 0
        return INetworkDefinition()

    def create_builder_config(self) -> IBuilderConfig:
        return IBuilderConfig()

    def create_optimization_profile(self) -> IOptimizationProfile:
        return IOptimizationProfile()

    def build_serialized_network(self, network: INetworkDefinition, config: IBuilderConfig) -> bytes | None:
        if os.environ.get("STANDIN_NO_ENGINE"):
            _error(self._log, os.environ["STANDIN_NO_ENGINE"])
            return None
        assert BuilderFlag.TF32 not in config.flags, "TF32 would not be float32"
        said = {
            "profiles": [profile.shapes for profile in config.profiles],
            "workspace": config.limits.get(MemoryPoolType.WORKSPACE),
            "flags": sorted(flag.name for flag in config.flags),
            "hardware": config.hardware_compatibility_level.name,
        }
        return bytes(_MARK + json.dumps(said).encode() + b"\n" + network.model.SerializeToString())


class EngineInspector:
    def __init__(self, model: Any) -> None:
        self._model = model

    def get_engine_information(self, form: LayerInformationFormat) -> str:
        assert form is LayerInformationFormat.JSON
        layers = [
            {"Name": node.name, "Outputs": [{"Name": node.output[0], "Format/Datatype": "Row major linear FP32"}],
             "TacticName": f"stand_in_{node.op_type.lower()}"}
            for node in self._model.graph.node
        ]  # fmt: skip
        return json.dumps({"Layers": layers})


class IExecutionContext:
    def __init__(self, engine: ICudaEngine) -> None:
        self._engine = engine
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}
        self._results: dict[str, Any] = {}

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        for profile in self._engine.said["profiles"]:
            low, _, high = profile.get(name, (shape, shape, shape))
            if not all(a <= b <= c for a, b, c in zip(low, shape, high, strict=True)):
                _error(self._engine.log, f"{name} lies outside of the profile")
                return False
        self._shapes[name] = shape
        return True

    def infer_shapes(self) -> list[str]:
        return [name for name in self._engine.types if self._engine.is_input(name) and name not in self._shapes]

    def set_tensor_address(self, name: str, address: int) -> bool:
        self._addresses[name] = address
        return True

    def _run(self) -> None:
        feeds = {
            name: np.frombuffer(
                ctypes.string_at(self._addresses[name], int(np.prod(shape)) * self._engine.types[name].itemsize),
                self._engine.types[name],
            ).reshape(shape)
            for name, shape in self._shapes.items()
        }
        names = [name for name in self._engine.types if not self._engine.is_input(name)]
        self._results = dict(zip(names, self._engine.session.run(names, feeds), strict=True))

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        self._run()  # onnxruntime cannot tell shapes without values
        return tuple(self._results[name].shape)

    def execute_async_v3(self, stream: int) -> bool:
        assert stream == 7
        self._run()
        for name, value in self._results.items():
            if name == os.environ.get("STANDIN_WRONG"):
                value = value + np.asarray(1, value.dtype)
            data = np.ascontiguousarray(value)
            ctypes.memmove(self._addresses[name], data.ctypes.data, data.nbytes)
        return True


class ICudaEngine:
    def __init__(self, plan: bytes, log: Any) -> None:
        head, model = plan.removeprefix(_MARK).split(b"\n", 1)
        self.log, self.said = log, json.loads(head)
        self._model = onnx.load_from_string(model)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._inputs = [value.name for value in self.session.get_inputs()]
        values = [*self.session.get_inputs(), *self.session.get_outputs()]
        kinds = {"float": "float32", "double": "float64"}
        texts = {value.name: value.type.removeprefix("tensor(").removesuffix(")") for value in values}
        self.types = {name: np.dtype(kinds.get(text, text)) for name, text in texts.items()}

    def is_input(self, name: str) -> bool:
        return name in self._inputs

    @property
    def num_io_tensors(self) -> int:
        return len(self.types)

    def get_tensor_name(self, index: int) -> str:
        return str(list(self.types)[index])

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return TensorIOMode.INPUT if self.is_input(name) else TensorIOMode.OUTPUT

    def get_tensor_location(self, name: str) -> TensorLocation:
        del name
        return TensorLocation.DEVICE

    def get_tensor_dtype(self, name: str) -> Any:
        return self.types[name]

    def create_execution_context(self) -> IExecutionContext:
        return IExecutionContext(self)

    def create_engine_inspector(self) -> EngineInspector:
        return EngineInspector(self._model)


class Runtime:
    def __init__(self, log: Any) -> None:
        self._log = log

    def deserialize_cuda_engine(self, plan: bytes) -> ICudaEngine | None:
        if not plan.startswith(_MARK):
            _error(self._log, "Magic tag does not match")
            return None
        return ICudaEngine(plan, self._log)

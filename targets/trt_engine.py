"""Build, check and time a TensorRT engine on a GPU host. Also shipped in every recipe as ``build_engine.py``.

Needs tensorrt 11, numpy and torch with CUDA, and nothing of this project, so that a recipe works on a bare GPU host:

    python build_engine.py            # in the recipe's folder; exit code 0 only if every check passed

Written against the API of TensorRT 11 (networks are strongly typed, precision is what the ONNX says).
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

_WORKSPACE_BYTES = 4 << 30
_WARM_UP = 10
_REPEATS = 100

Profiles = dict[str, dict[str, list[int]]]


def build(onnx: Path, engine: Path, profiles: Profiles) -> None:
    """Parse ``onnx`` and write a serialised engine.

    Args:
        onnx: the graph, precision written in.
        engine: file to write.
        profiles: input name -> ``min``, ``opt``, ``max`` shape, for inputs with dynamic sizes.

    Raises:
        RuntimeError: the parser or the builder refused, with node, operator and reason.
    """
    import tensorrt as trt

    logger = trt.Logger(trt.Logger.WARNING)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(onnx)):
        raise RuntimeError(parser_errors(parser))
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, _WORKSPACE_BYTES)
    # On by default, and far from float32.
    config.clear_flag(trt.BuilderFlag.TF32)
    add_profiles(builder, config, profiles)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise RuntimeError("TensorRT's builder gave no engine; its log above says why")
    engine.write_bytes(bytes(plan))


def parser_errors(parser: Any) -> str:
    """Every error of an ONNX parser: node, operator and reason."""
    errors = [parser.get_error(index) for index in range(parser.num_errors)]
    return "; ".join(f"node {e.node_name() or '?'} ({e.node_operator() or '?'}): {e.desc()}" for e in errors)


def add_profiles(builder: Any, config: Any, profiles: Profiles) -> None:
    """Give ``config`` one optimization profile with the ranges of every dynamic input."""
    if not profiles:
        return
    profile = builder.create_optimization_profile()
    for name, shapes in profiles.items():
        profile.set_shape(name, shapes["min"], shapes["opt"], shapes["max"])
    config.add_optimization_profile(profile)


class Engine:
    """A deserialised engine that runs numpy arrays through torch's CUDA memory."""

    def __init__(self, file: Path) -> None:
        """Load ``file`` onto the current GPU; raises ``RuntimeError`` when TensorRT refuses it."""
        import tensorrt as trt
        import torch

        self._torch = torch
        self._trt = trt
        self._runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        self._engine = self._runtime.deserialize_cuda_engine(file.read_bytes())
        if self._engine is None:
            raise RuntimeError(f"TensorRT cannot load {file.name}: it was built for another GPU or version")
        self._context = self._engine.create_execution_context()
        names = [self._engine.get_tensor_name(index) for index in range(self._engine.num_io_tensors)]
        self.inputs = [n for n in names if self._engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT]
        self.outputs = [n for n in names if n not in self.inputs]

    def run(self, feeds: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        """Copy in, execute, copy out."""
        return self._timed(feeds)[0]

    def times(self, feeds: dict[str, np.ndarray[Any, Any]]) -> dict[str, float]:
        """Median milliseconds of host-to-device copy, compute and device-to-host copy."""
        for _ in range(_WARM_UP):
            self._timed(feeds)
        rows = [self._timed(feeds)[1] for _ in range(_REPEATS)]
        return {key: statistics.median(row[key] for row in rows) for key in rows[0]}

    def _timed(
        self, feeds: dict[str, np.ndarray[Any, Any]]
    ) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, float]]:
        torch = self._torch
        stream = torch.cuda.current_stream()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        marks[0].record()
        inside = {name: torch.from_numpy(feeds[name]).cuda() for name in self.inputs}
        for name, value in inside.items():
            self._context.set_input_shape(name, tuple(value.shape))
            self._context.set_tensor_address(name, value.data_ptr())
        missing = self._context.infer_shapes()
        if missing:
            raise RuntimeError(f"TensorRT cannot tell the output shapes; it lacks {missing}")
        outside = {name: self._output(name) for name in self.outputs}
        marks[1].record()
        if not self._context.execute_async_v3(stream.cuda_stream):
            raise RuntimeError("TensorRT refused to execute at these shapes")
        marks[2].record()
        arrays = {name: value.cpu().numpy() for name, value in outside.items()}
        marks[3].record()
        torch.cuda.synchronize()
        spans = zip(("h2d_ms", "compute_ms", "d2h_ms"), marks, marks[1:], strict=False)
        return arrays, {key: start.elapsed_time(end) for key, start, end in spans}

    def _output(self, name: str) -> Any:
        torch, trt = self._torch, self._trt
        kinds = {
            trt.float32: torch.float32,
            trt.float16: torch.float16,
            trt.int32: torch.int32,
            trt.int64: torch.int64,
            trt.int8: torch.int8,
            trt.bool: torch.bool,
        }
        value = torch.empty(
            tuple(self._context.get_tensor_shape(name)), device="cuda", dtype=kinds[self._engine.get_tensor_dtype(name)]
        )
        self._context.set_tensor_address(name, value.data_ptr())
        return value


def compare(got: dict[str, np.ndarray[Any, Any]], golden: Any, limits: dict[str, dict[str, float]]) -> list[str]:
    """What is wrong with ``got``, a sentence each; empty when it is right.

    Args:
        got: the engine's outputs.
        golden: the case's arrays, ``out:NAME`` and perhaps ``truth:NAME``.
        limits: output name -> ``max_error`` and ``rms_error``, or ``agreement``, the share of an integer output that
            must be equal; all of it where that is not said.
    """
    wrong = []
    for name, limit in limits.items():
        wanted = golden[f"out:{name}"]
        value = got.get(name)
        if value is None or value.shape != wanted.shape or value.dtype != wanted.dtype:
            wrong.append(f"{name}: missing, or another shape or dtype than {wanted.dtype}{list(wanted.shape)}")
            continue
        if wanted.dtype.kind != "f":
            share = float(np.mean(value == wanted)) if wanted.size else 1.0
            least = limit.get("agreement", 1.0)
            wrong += [] if share >= least else [f"{name}: {share:.0%} of the integers agree, {least:.0%} must"]
            continue
        finite = np.isfinite(wanted)
        if not np.array_equal(value[~finite], wanted[~finite], equal_nan=True) or not np.isfinite(value[finite]).all():
            wrong.append(f"{name}: NaN or infinity in other places than in the source")
            continue
        truth = golden.get(f"truth:{name}", wanted)
        gap = np.abs(value[finite].astype(np.float64) - truth[finite])
        worst, rms = (float(gap.max()), float(np.sqrt(np.mean(gap**2)))) if gap.size else (0.0, 0.0)
        if not (worst <= limit["max_error"] and rms <= limit["rms_error"]):
            wrong.append(
                f"{name}: error {worst:.3g} (limit {limit['max_error']:.3g}), "
                f"rms {rms:.3g} (limit {limit['rms_error']:.3g})"
            )
    return wrong


def main() -> int:
    """Build, check every case and time the engine of the recipe in this script's folder."""
    here = Path(__file__).resolve().parent
    recipe = json.loads((here / "recipe.json").read_text(encoding="utf-8"))
    build(here / recipe["onnx"], here / "model.engine", recipe["profiles"])
    engine = Engine(here / "model.engine")
    failures = []
    for case in recipe["cases"]:
        with np.load(here / "golden" / case["file"], allow_pickle=False) as golden:
            feeds = {name: np.ascontiguousarray(golden[f"in:{name}"]) for name in recipe["inputs"]}
            failures += [f"{case['name']}: {text}" for text in compare(engine.run(feeds), golden, case["limits"])]
            if case["name"] == recipe["latency_case"]:
                times = engine.times(feeds)
    result = {"status": "failed" if failures else "passed", "failures": failures, "latency": times}
    (here / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

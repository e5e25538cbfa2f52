"""A session of onnxruntime on the provider that was asked for, which is read back and never silently another one."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from convert.errors import StageError
from convert.providers import CPU, PROVIDERS
from convert.records_engine import Placement
from convert.targets.base import Arrays, Session

_TF32 = (
    "TF32 was off in the proof (use_tf32=0, and NVIDIA_TF32_OVERRIDE=0 for TensorRT); with it results are less exact"
)


class OrtSession(Session):
    """An onnxruntime session. On a GPU the first run is profiled, which says where every operator ran."""

    def __init__(self, file: Path, threads: int, provider: str = "cpu", precision: str = "float32") -> None:
        """Load ``file``.

        Args:
            file: the graph.
            threads: intra-operator threads of what runs on the CPU.
            provider: a key of ``convert.providers.PROVIDERS``.
            precision: of the graph, which TensorRT must be told.

        Raises:
            StageError: onnxruntime does not take the graph, or opened it on another provider.
        """
        self._asked = PROVIDERS[provider][0]
        self._profile: tempfile.TemporaryDirectory[str] | None = None
        if provider != "cpu":
            self.notes = (_TF32,)
            self._profile = tempfile.TemporaryDirectory(prefix="convert-profile-")
        try:
            self._session = self._open(file, threads, _with_settings(provider, precision))
            self.ran = str(self._session.get_providers()[0])
            if self.ran != self._asked:
                raise StageError(
                    f"{self._asked} was asked for, and onnxruntime opened the graph on {self.ran} without a word"
                )
        except BaseException:
            self.close()
            raise
        self._outputs = [value.name for value in self._session.get_outputs()]

    def _open(self, file: Path, threads: int, providers: list[Any]) -> Any:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        more: dict[str, Any] = {}
        if self._profile is not None:
            more = {"enable_fallback": 0}  # else a run that fails is repeated on the CPU, and only a print says so
            options.enable_profiling = True
            options.profile_file_prefix = str(Path(self._profile.name) / "run")
            _ready_for_gpu(ort, self._asked)
        try:
            return ort.InferenceSession(str(file), options, providers=providers, **more)
        except Exception as error:  # onnxruntime's own, of many types; its text starts with the path of the file
            text = str(error).replace(f"Load model from {file} failed:", "").split("\n")[0]
            where = f" on {self._asked}" if self._profile is not None else ""
            reason = f"onnxruntime does not take the graph{where}: {type(error).__name__}: {text}"
            raise StageError(reason[:500]) from error

    def run(self, feeds: Arrays) -> dict[str, Any]:
        """See :meth:`Session.run`."""
        values = self._session.run(self._outputs, dict(feeds))
        if self._profile is not None:
            try:
                self.placement = read_profile(Path(self._session.end_profiling()), self._asked, self.ran)
            finally:
                self.close()
        return dict(zip(self._outputs, values, strict=True))

    def close(self) -> None:
        """Remove the profile."""
        if self._profile is not None:
            self._profile.cleanup()
            self._profile = None


def _ready_for_gpu(ort: Any, asked: str) -> None:
    if asked == "TensorrtExecutionProvider":
        # It has no option of its own for this; NVIDIA's libraries read the variable when they start.
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    if hasattr(ort, "preload_dlls"):
        ort.preload_dlls()  # CUDA and cuDNN from the packages that torch brought, which no loader looks in


def _with_settings(provider: str, precision: str) -> list[Any]:
    """The providers as a session takes them."""
    settings: dict[str, dict[str, str]] = {"CUDAExecutionProvider": {"use_tf32": "0"}}
    if precision == "float16":
        settings["TensorrtExecutionProvider"] = {"trt_fp16_enable": "1"}
    if precision == "int8":
        settings["TensorrtExecutionProvider"] = {"trt_int8_enable": "1"}
    return [(name, settings[name]) if name in settings else name for name in PROVIDERS[provider]]


def read_profile(file: Path, asked: str, ran: str) -> Placement:
    """Where the operators of one profiled run were.

    Each node counts once, however often a loop ran it; what TensorRT fused is one node. Copies between the memories,
    which onnxruntime adds itself, are no operators of the graph and do not count.

    Raises:
        StageError: the profile names no operator.
    """
    nodes: dict[tuple[str, str, str], str] = {}
    for event in json.loads(file.read_text(encoding="utf-8")):
        about = event.get("args", {})
        operator, provider = about.get("op_name"), about.get("provider")
        if event.get("cat") != "Node" or not operator or not provider or operator.startswith("Memcpy"):
            continue
        nodes[event["name"], operator, str(about.get("node_index"))] = provider
    if not nodes:
        raise StageError(f"onnxruntime's profile names no operator, so nothing says that any ran on {asked}")
    counts = Counter(nodes.values())
    return Placement(asked, ran, dict(sorted(counts.items())), counts[CPU] / len(nodes))

"""``--provider``: what is refused, and how it is told where the operators really ran. No test here has a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.graphs import residual
from helpers.simulated_gpu import simulated_session

from convert.errors import InputError, StageError
from convert.platforms import host_platform
from convert.providers import CPU, PROVIDERS, misplaced, parse_share, settle_provider
from convert.records import Artifact, Outcome, Status
from convert.records_engine import Placement
from convert.report.cells import remarks
from convert.targets import onnx_provider
from convert.targets.onnx import Onnx
from convert.targets.onnx_session import OrtSession, _with_settings, read_profile

CUDA, TENSORRT = "CUDAExecutionProvider", "TensorrtExecutionProvider"
HERE = (host_platform(),)


@pytest.mark.parametrize(("text", "share"), [("0%", 0), ("2.5%", 0.025), (" 100 % ", 1), ("007%", 0.07)])
def test_a_share_is_a_percentage(text: str, share: float) -> None:
    assert parse_share(text) == pytest.approx(share)


@pytest.mark.parametrize(
    "text", ["", "%", "0", "0.05", "1", "-1%", "100.1%", "101%", "nan%", "1e1%", "5%%", "٣%", "½%"]
)
def test_all_else_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_share(text)
    told = f"--max-cpu-ops {text!r} is no percentage; write 0% to 100%, with the sign, as in 2.5%"
    assert str(caught.value) == told


def settled(
    provider: str, share: str | None = None, targets: str = "onnx", platforms: Any = HERE, devices: Any = ()
) -> dict[str, Any]:
    given = {"provider": provider, "max_cpu_ops": share}
    return settle_provider(given, targets.split(","), platforms, devices)


def test_what_is_asked_of_a_provider() -> None:
    assert settled("cpu") == {}
    assert settled("cuda") == {"provider": "cuda", "max_cpu_ops": None}
    assert settled("tensorrt", "0%", "tvm,onnx") == {"provider": "tensorrt", "max_cpu_ops": 0}


PI = SimpleNamespace(name="ssh://pi")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"provider": "cpu", "share": "0%"},
            "--max-cpu-ops is about operators that do not run on a GPU, and --provider is cpu; give --provider cuda or "
            "tensorrt, or leave --max-cpu-ops out",
        ),
        ({"provider": "cuda", "share": "5"}, "--max-cpu-ops '5' is no percentage; write 0% to 100%, with"),
        (
            {"provider": "cuda", "targets": "tvm,trt"},
            "--provider cuda is about onnx, and --target is tvm, trt; add onnx, or leave --provider out",
        ),
        (
            {"provider": "cuda", "platforms": (*HERE, "linux/riscv64")},
            "--provider cuda is for a GPU of this host, and --platform asks for linux/riscv64; leave one of",
        ),
        (
            {"provider": "tensorrt", "devices": (PI,)},
            "--provider tensorrt is for a GPU of this host, and --device asks for ssh://pi; leave one of the two out",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as caught:
        settled(**given)
    assert str(caught.value).startswith(told)


def placed(ran: str = CUDA, asked: str = CUDA, **operators: int) -> Placement:
    by_name = {{"cuda": CUDA, "cpu": CPU, "tensorrt": TENSORRT}[key]: count for key, count in operators.items()}
    return Placement(asked, ran, by_name, operators.get("cpu", 0) / sum(operators.values()))


@pytest.mark.parametrize(
    ("provider", "placement", "most", "told"),
    [
        ("cpu", None, None, ""),
        ("cuda", placed(cuda=3, cpu=1), None, ""),
        ("cuda", placed(cuda=3, cpu=1), 0.25, ""),
        ("cuda", placed(cuda=3), 0.0, ""),
        ("cuda", None, None, f"nothing says where the operators ran, and {CUDA} was asked for"),
        ("tensorrt", placed(cuda=3), None, f"nothing says where the operators ran, and {TENSORRT} was asked for"),
        ("cuda", placed(CPU, cpu=4), None, f"{CUDA} was asked for, and no operator ran on it: all ran on {CPU}"),
        ("cuda", placed(cpu=4), None, f"{CUDA} was asked for, and no operator ran on it: all ran on {CPU}"),
        ("cuda", placed(CPU, cuda=4), None, f"{CUDA} was asked for, and no operator ran on it: all ran on {CUDA}"),
        (
            "tensorrt",
            placed(TENSORRT, TENSORRT, cuda=4, cpu=1),
            None,
            f"{TENSORRT} was asked for, and no operator ran on it: all ran on {CUDA}, {CPU}",
        ),
        ("cuda", placed(cuda=3, cpu=1), 0.2, "1 of 4 operators (25.0%) ran on the CPU, and --max-cpu-ops allows 20%"),
        ("cuda", Placement(CUDA, CUDA, {CUDA: 1}, float("nan")), 1.0, "0 of 1 operators (nan%) ran on the CPU"),
    ],
)
def test_where_operators_ran_is_judged(
    provider: str, placement: Placement | None, most: float | None, told: str
) -> None:
    found = misplaced(provider, placement, most)
    assert found.startswith(told)
    assert bool(found) == bool(told)


#: Written by hand after the form of a real profile of the CPU: no GPU has made this.
SIMULATED_PROFILE = [
    {"cat": "Session", "name": "model_loading_uri", "args": {}},
    *(
        {
            "cat": "Node",
            "name": f"{name}_kernel_time",
            "args": {"op_name": kind, "provider": where, "node_index": index},
        }
        for name, kind, where, index in [
            ("Memcpy_token_0", "MemcpyFromHost", CUDA, "7"),
            ("conv", "Conv", CUDA, "0"),
            ("loop", "Loop", CPU, "1"),
            ("add", "Add", CUDA, "0"),
            ("add", "Add", CUDA, "0"),  # the loop's second turn
            ("add", "Add", CUDA, "3"),  # of the same name, and another one
            ("Memcpy_token_1", "MemcpyToHost", CUDA, "8"),
        ]
    ),
    {"cat": "Node", "name": "conv_fence_before", "args": {"op_name": "Conv"}},
    {"cat": "Session", "name": "model_run", "args": {}},
]


def test_a_profile_counts_nodes_once_and_no_copies(tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_text(json.dumps(SIMULATED_PROFILE), encoding="utf-8")
    found = read_profile(tmp_path / "profile.json", CUDA, CUDA)
    assert found == Placement(CUDA, CUDA, {CPU: 1, CUDA: 3}, 0.25)


def test_a_profile_without_operators_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_text(json.dumps(SIMULATED_PROFILE[:2]), encoding="utf-8")
    with pytest.raises(StageError, match=r"^onnxruntime's profile names no operator, so nothing says that any ran on "):
        read_profile(tmp_path / "profile.json", CUDA, CUDA)


def test_settings_of_the_providers() -> None:
    tf32 = (CUDA, {"use_tf32": "0"})
    assert _with_settings("cpu", "float16") == [CPU]
    assert _with_settings("cuda", "float16") == [tf32, CPU]
    assert _with_settings("tensorrt", "float32") == [TENSORRT, tf32, CPU]
    assert _with_settings("tensorrt", "float16") == [(TENSORRT, {"trt_fp16_enable": "1"}), tf32, CPU]
    assert _with_settings("tensorrt", "int8") == [(TENSORRT, {"trt_int8_enable": "1"}), tf32, CPU]
    assert all(names[-1] == CPU for names in PROVIDERS.values())


def test_the_report_says_where_operators_ran() -> None:
    outcome = Outcome("onnx", "float32", *HERE, Status.PASSED, "check", "", placement=placed(cuda=3, cpu=1))
    assert remarks(outcome) == [f"operators on {CUDA} 3; on the CPU: 1 (25.0%)"]
    on_cpu = Outcome("onnx", "float32", *HERE, Status.PASSED, "check", "", placement=placed(CPU, cpu=2))
    assert remarks(on_cpu) == ["operators on none; on the CPU: 2 (100.0%)"]


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    onnx.save(residual(), str(tmp_path / "model.onnx"))
    return tmp_path / "model.onnx"


def feeds() -> dict[str, Any]:
    import numpy as np

    return {"x": np.ones((2, 3, 6, 6), np.float32)}


@pytest.mark.toolkit
def test_a_session_on_the_cpu_has_no_profile(graph: Path) -> None:
    session = OrtSession(graph, 1)
    session.run(feeds())
    assert (session.placement, session.notes, session.ran) == (None, (), CPU)


@pytest.mark.toolkit
def test_a_real_profile_of_the_cpu_has_all_operators_there(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(str(graph), options, providers=[CPU])
    session.run(None, feeds())
    session.run(None, feeds())
    found = read_profile(Path(session.end_profiling()), CUDA, CPU)
    assert set(found.operators) == {CPU}
    assert found.cpu_share == 1
    assert 1 < found.operators[CPU] <= 20
    assert "no operator ran on it" in misplaced("cuda", found, None)


@pytest.mark.toolkit
@pytest.mark.filterwarnings("ignore:Specified provider")
@pytest.mark.parametrize("provider", ["cuda", "tensorrt"])
def test_a_real_silent_fallback_is_found(provider: str, graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    asked = PROVIDERS[provider][0]
    if asked in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has that provider")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "")
    artifact = Artifact("onnx", "float32", "export", (graph.name,), (), settings={"provider": provider})
    with pytest.raises(StageError) as caught:
        Onnx().open(artifact, graph.parent, 1)
    assert caught.value.reason == f"{asked} was asked for, and onnxruntime opened the graph on {CPU} without a word"


@pytest.mark.toolkit
def test_a_simulated_gpu_is_profiled_once_and_leaves_nothing(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    opened: list[dict[str, Any]] = []

    class Noting(simulated_session(onnxruntime.InferenceSession, ["Conv"])):  # type: ignore[misc]
        def __init__(self, *words: Any, **more: Any) -> None:
            opened.append(more)
            super().__init__(*words, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Noting)
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: opened.append({"preloaded": True}))
    session = OrtSession(graph, 1, "cuda")
    assert session._profile is not None
    folder = Path(session._profile.name)
    assert folder.is_dir()
    session.run(feeds())
    first = session.placement
    session.run(feeds())
    assert first is not None
    assert first is session.placement
    assert (first.asked, first.ran) == (CUDA, CUDA)
    assert first.operators[CPU] >= 1
    assert first.operators[CUDA] >= 1
    assert not folder.exists()
    assert opened == [{"preloaded": True}, {"providers": [(CUDA, {"use_tf32": "0"}), CPU], "enable_fallback": 0}]
    assert "TF32 was off" in session.notes[0]


@pytest.mark.toolkit
def test_what_is_lacking_for_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["AzureExecutionProvider", CPU])
    version = onnxruntime.__version__
    assert onnx_provider.lacking("cuda") == f"this onnxruntime {version} offers AzureExecutionProvider, {CPU}"
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA, CPU])
    monkeypatch.setattr(onnx_provider, "_driver_problem", lambda: "no driver")
    assert onnx_provider.lacking("cuda") == "no driver"
    # With a driver it is tried: what is called available may fail to load, as it does on a host without cuDNN.
    monkeypatch.setattr(onnx_provider, "_driver_problem", lambda: "")
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None)
    real = onnxruntime.InferenceSession
    monkeypatch.setattr(
        onnxruntime, "InferenceSession", lambda file, options, **_: real(file, options, providers=[CPU])
    )
    assert "onnxruntime opened the graph on CPUExecutionProvider without a word" in onnx_provider.lacking("cuda")
    monkeypatch.setattr(onnxruntime, "InferenceSession", simulated_session(real, []))
    assert onnx_provider.lacking("cuda") == ""

"""``--provider`` through the command: without a GPU, with a wrong one, and with a simulated one."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from helpers import command
from helpers.fakes import staged_python
from helpers.graphs import residual

pytestmark = pytest.mark.toolkit

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
SIMULATION = Path(__file__).parent / "helpers" / "simulated_gpu.py"


def convert(place: Path, model: Path, *words: str, core: Path | None = None) -> tuple[command.Done, dict[str, Any]]:
    variables: dict[str, str | Path] = {} if core is None else {"CONVERT_PYTHON_CORE": core}
    done = command.run(model, "-t", "onnx", "--out", "out", *words, cwd=place, variables=variables)
    return done, json.loads((place / "out/report.json").read_text(encoding="utf-8"))


def simulated(folder: Path, on_cpu: str = "") -> Path:
    """SIMULATED: a Python for core whose onnxruntime says, wherever a job is about CUDA, that it runs on a GPU."""
    real = Path(command.python_of("core"))
    script = f'exec {shlex.quote(str(real))} {shlex.quote(str(SIMULATION))} {shlex.quote(on_cpu)} "$@"'
    return staged_python(folder / "core", real, {'"provider": "cuda"': script})


def test_a_host_without_a_gpu_says_so_before_anything_is_built(small_onnx: Path, tmp_path: Path) -> None:
    done, report = convert(tmp_path, small_onnx, "-p", "float32,float16", "--provider", "cuda", "--bench-seconds", "0")
    if report["artifacts"][0]["status"] == "passed":
        pytest.skip("this host has one")
    assert done.code == 1
    for outcome in report["artifacts"]:
        assert (outcome["status"], outcome["stage"], outcome["routes"]) == ("failed", "toolchain", [])
        assert outcome["reason"].startswith("onnx on cuda needs onnxruntime-gpu and an NVIDIA GPU, and this ")
        assert outcome["advice"].startswith("install the extra [gpu] as docs/toolchains.md says")
    assert report["export"]["status"] == "passed"  # the graph itself is proven on the CPU, for whoever needs it
    assert not (tmp_path / "out/onnx").exists()


def test_other_targets_go_on(small_onnx: Path, tmp_path: Path) -> None:
    words = ("-t", "onnx,trt", "--provider", "tensorrt", "--bench-seconds", "0")
    _, report = convert(tmp_path, small_onnx, *words)
    by_target = {outcome["target"]: outcome for outcome in report["artifacts"]}
    if by_target["onnx"]["status"] == "passed":
        pytest.skip("this host has a GPU")
    assert by_target["onnx"]["reason"].startswith("onnx on tensorrt needs onnxruntime-gpu and an NVIDIA GPU")
    assert by_target["trt"]["status"] == "deferred"


def test_a_fallback_after_the_probe_is_no_pass(small_onnx: Path, tmp_path: Path) -> None:
    """The probe says yes, and the real onnxruntime then opens the graph on the CPU, as it does for want of memory."""
    real = Path(command.python_of("core"))
    yes = f'exec {shlex.quote(str(real))} {shlex.quote(str(SIMULATION))} "" "$@"'
    core = staged_python(tmp_path / "core", real, {'"stage": "provider"': yes})
    done, report = convert(tmp_path, small_onnx, "--provider", "cuda", "--bench-seconds", "0", core=core)
    (outcome,) = report["artifacts"]
    assert (done.code, outcome["status"], outcome["stage"]) == (1, "failed", "check")
    assert f"{CUDA} was asked for, and onnxruntime opened the graph on {CPU} without a word" in outcome["reason"]
    assert not (tmp_path / "out/onnx").exists()


def test_a_simulated_gpu_is_recorded_everywhere(small_onnx: Path, tmp_path: Path) -> None:
    words = ("--provider", "cuda", "--max-cpu-ops", "0%", "--bench-seconds", "0.2")
    done, report = convert(tmp_path, small_onnx, *words, core=simulated(tmp_path))
    assert done.code == 0, done.stderr
    (outcome,) = report["artifacts"]
    placement = outcome["placement"]
    assert (placement["asked"], placement["ran"], placement["cpu_share"]) == (CUDA, CUDA, 0)
    assert set(placement["operators"]) == {CUDA}
    assert outcome["latency"]["ratio_to_onnxruntime"] > 0
    assert (report["options"]["provider"], report["options"]["max_cpu_ops"]) == ("cuda", 0)
    manifest = json.loads((tmp_path / "out/onnx/float32/manifest.json").read_text(encoding="utf-8"))
    assert manifest["settings"] == {"provider": "cuda"}
    assert f"operators on {CUDA}" in done.stdout
    assert f"- operators on {CUDA}" in (tmp_path / "out/report.md").read_text(encoding="utf-8")


def test_a_simulated_gpu_that_leaves_an_operator_to_the_cpu(tmp_path: Path) -> None:
    model = tmp_path / "residual.onnx"
    pytest.importorskip("onnx").save(residual(), str(model))
    words = ("--provider", "cuda", "--max-cpu-ops", "10%", "--bench-seconds", "0")
    done, report = convert(tmp_path, model, *words, core=simulated(tmp_path, "Gemm"))
    (outcome,) = report["artifacts"]
    assert (done.code, outcome["status"], outcome["stage"]) == (1, "failed", "check")
    assert "ran on the CPU, and --max-cpu-ops allows 10%" in outcome["reason"]
    assert outcome["placement"]["operators"][CPU] == 1
    assert not (tmp_path / "out/onnx").exists()
    (tmp_path / "again").mkdir()
    core = simulated(tmp_path / "again", "Gemm")
    done, report = convert(tmp_path / "again", model, "--provider", "cuda", "--bench-seconds", "0", core=core)
    assert (done.code, report["artifacts"][0]["status"]) == (0, "passed")
    assert 0 < report["artifacts"][0]["placement"]["cpu_share"] < 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--provider rocm", "Error: Invalid value for '--provider': 'rocm' is not one of 'cpu', 'cuda', 'tensorrt'."),
        (
            "--provider cuda --max-cpu-ops 5",
            "convert: --max-cpu-ops '5' is no percentage; write 0% to 100%, with the sign",
        ),
        ("--max-cpu-ops 5%", "convert: --max-cpu-ops "),
    ],
)
def test_a_wrong_value_is_refused_before_anything_runs(tmp_path: Path, small_onnx: Path, words: str, told: str) -> None:
    done = command.run(small_onnx, "-t", "onnx", *words.split(), "--out", tmp_path / "out", cwd=tmp_path)
    assert (done.code, done.stdout) == (2, "")
    assert told in done.stderr
    assert not (tmp_path / "out").exists()

"""Engines of TensorRT for RTX, really built on the CPU, and what its parser says of a graph beforehand."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from helpers.command import Done, importing, python_of, run
from helpers.full_run import DIGITS

from convert.records import Outcome, Report, Status
from convert.serial import read_json
from convert.toolchains import find

pytestmark = [
    pytest.mark.toolkit,
    pytest.mark.skipif(find("trt-rtx") is None, reason="the toolchain trt-rtx is not installed"),
]


def converted(place: Path, *words: str) -> tuple[Done, Report]:
    done = run(
        DIGITS / "digits.pt2", "-t", "trt-rtx", "-q", "--bench-seconds", "0", "--out", place / "out", *words, cwd=place
    )
    return done, read_json(Report, place / "out" / "report.json")


def only(report: Report) -> Outcome:
    (outcome,) = report.artifacts
    return outcome


def test_an_engine_is_built_and_never_passed(tmp_path: Path) -> None:
    done, report = converted(tmp_path, "--gpu", "sm86,sm120", "--workspace", "512M")
    rtx = only(report)
    assert (done.code, rtx.status, rtx.route, rtx.checks) == (3, Status.DEFERRED, "engine", ())
    assert rtx.reason == ("built, not run here: its engines are built on the CPU, and only a GPU can run them")
    assert rtx.advice == "run it on an NVIDIA RTX GPU"
    (note,) = rtx.notes
    assert "built it for sm86 (GeForce RTX 30), sm120 (GeForce RTX 50) and no other GPU; it was not run" in note
    place = tmp_path / "out" / "trt-rtx" / "float32"
    assert (place / "model.engine").stat().st_size > 10_000
    manifest = json.loads((place / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["status"] == "deferred"
    assert manifest["settings"]["gpus"] == ["sm86", "sm120"]
    assert manifest["settings"]["workspace"] == 512 << 20
    assert manifest["settings"]["profiles"] == {
        "image": {"min": [1, 1, 8, 8], "opt": [8, 1, 8, 8], "max": [64, 1, 8, 8]}
    }
    assert "tensorrt-rtx" in manifest["versions"]
    again, _ = converted(tmp_path, "--allow-deferred")
    assert again.code == 0


def test_an_engine_of_this_host_is_not_called_one_of_another_platform(tmp_path: Path) -> None:
    done, report = converted(tmp_path, "--platform", "linux/arm64", "--workspace", "512M")
    arm = only(report)
    assert (arm.status, arm.files, done.code) == (Status.SKIPPED, (), 1)
    assert arm.reason == "trt-rtx artifacts are built on the platform that runs them; run the command there"


def test_a_gpu_that_is_refused_is_named_and_none_is_dropped(tmp_path: Path) -> None:
    done, report = converted(tmp_path, "--gpu", "sm75,sm86")
    rtx = only(report)
    assert (done.code, rtx.status, rtx.stage) == (1, Status.FAILED, "build")
    assert "TensorRT for RTX does not build it for sm75: " in rtx.reason
    assert "FP32 GEMM is not supported" in rtx.reason
    assert rtx.reason.endswith("leave it out with --gpu sm86")
    assert not (tmp_path / "out" / "trt-rtx" / "float32" / "model.engine").exists()


SCRIPT = """
import json, sys
from pathlib import Path
import tensorrt_rtx as trt
from convert.targets.trt_host.building import BuildRefused, build
from convert.targets.trt_host.settings import EngineSettings
onnx, asked = Path(sys.argv[1]), json.load(sys.stdin)
for profiles, settings in asked:
    try:
        settings = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
        print(json.dumps(["built", len(build(trt, onnx, profiles, EngineSettings(**settings)))]))
    except BuildRefused as error:
        print(json.dumps([error.step, str(error)]))
"""
GOOD = {"x": {"min": [1, 4], "opt": [2, 4], "max": [8, 4]}}
SM86 = {"capabilities": ["SM86"]}


def graph(place: Path, *nodes: Any, out: str = "float", dynamic: bool = True) -> Path:
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    kinds = {"float": onnx.TensorProto.FLOAT, "int64": onnx.TensorProto.INT64}
    made = helper.make_graph(
        [helper.make_node(kind, inputs, outputs, name=name, **more) for kind, inputs, outputs, name, more in nodes],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N" if dynamic else 2, 4])],
        [helper.make_tensor_value_info("y", kinds[out], None)],
        [numpy_helper.from_array(np.ones((4, 4), np.float32), "w")],
    )
    file = place / "model.onnx"
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(file))
    return file


MATMUL: Any = ("MatMul", ["x", "w"], ["y"], "product", {})


def built(file: Path, *asked: Any) -> list[Any]:
    done = subprocess.run(
        [python_of("trt-rtx"), "-c", SCRIPT, file], input=json.dumps(asked), capture_output=True, text=True,
        check=False, env=importing(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


def test_what_is_wrong_with_a_profile_or_a_flag_is_said(tmp_path: Path) -> None:
    def profile(low: list[int], usual: list[int], high: list[int], name: str = "x") -> Any:
        return {name: {"min": low, "opt": usual, "max": high}}

    found = built(
        graph(tmp_path, MATMUL),
        (GOOD, SM86),
        ({}, SM86),
        (profile([4, 4], [2, 4], [8, 4]), SM86),
        (profile([1, 5], [2, 5], [8, 5]), SM86),
        (profile([1], [2], [8]), SM86),
        (profile([1, 4], [2, 4], [8, 4], "z"), SM86),
        (GOOD, SM86 | {"flags": ["refit"]}),
        (GOOD, SM86 | {"flags": ["version-compatible"]}),
    )
    assert found[0][0] == "built"
    assert found[1:6] == [
        ["builder", "Network has dynamic or shape inputs, but no optimization profile has been defined"],
        [
            "builder",
            "Invalid optimization profiles for input tensors x, please ensure that the optimization profiles satisfy "
            "MIN<=OPT<=MAX",
        ],
        [
            "builder",
            "Dimension mismatch for tensor x and profile 0. At dimension axis 1, profile has min=5, opt=5, max=5 but "
            "tensor has 4",
        ],
        ["builder", "Dynamic-shaped input tensor x has 2 dimensions but profile 0 has 1 dimensions"],
        ["builder", "Dynamic input tensor x is missing dimensions in profile 0"],
    ]
    assert [step for step, _ in found[6:]] == ["builder", "builder"]
    assert "libnvinfer_lean" in found[7][1]


GATE = """
import json, sys
from convert.serial import to_plain
from convert.stages.gate import run
class Channel:
    def say(self, text): pass
print(json.dumps(to_plain(run({"onnx": sys.argv[1], "profiles": json.loads(sys.argv[2])}, Channel()))))
"""


def gate(file: Path, profiles: Any) -> Any:
    done = subprocess.run(
        [python_of("trt-rtx"), "-c", GATE, file, json.dumps(profiles)], capture_output=True, text=True, check=False,
        env=importing(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_gate_passes_a_graph(tmp_path: Path) -> None:
    said = gate(graph(tmp_path, MATMUL), GOOD)
    assert said["tool"].startswith("TensorRT for RTX 1.")
    assert (said["verdict"], said["node"], said["operator"]) == ("passed", "", "")


def test_the_gate_names_node_operator_and_reason(tmp_path: Path) -> None:
    said = gate(graph(tmp_path, ("Det", ["x"], ["y"], "odd_one", {})), GOOD)
    assert (said["verdict"], said["node"], said["operator"]) == ("failed", "odd_one", "Det")
    assert said["reason"] == "its parser refuses node odd_one (Det): the parser has no operator Det"


def test_the_gate_says_what_is_wrong_with_a_profile(tmp_path: Path) -> None:
    said = gate(graph(tmp_path, MATMUL), {})
    assert (said["verdict"], said["operator"]) == ("failed", "")
    assert said["reason"] == (
        "its builder refuses Network has dynamic or shape inputs, but no optimization profile has been defined"
    )


def test_what_only_lacks_a_gpu_is_inconclusive(tmp_path: Path) -> None:
    said = gate(graph(tmp_path, ("NonZero", ["x"], ["y"], "finds", {}), out="int64", dynamic=False), {})
    assert said["verdict"] == "inconclusive"
    assert said["reason"].startswith("it refuses NonZero where there is no GPU, TensorRT does not: its ")


def test_an_unknown_operator_behind_one_that_lacks_a_gpu_fails(tmp_path: Path) -> None:
    nodes: Any = [("NonZero", ["x"], ["z"], "finds", {}), ("Det", ["x"], ["y"], "odd_one", {})]
    for order in (nodes, nodes[::-1]):
        said = gate(graph(tmp_path, *order, dynamic=False), {})
        assert (said["verdict"], said["node"], said["operator"]) == ("failed", "odd_one", "Det")


def test_what_lacks_a_gpu_is_found_inside_functions(tmp_path: Path) -> None:
    import onnx
    from onnx import helper

    file = graph(tmp_path, ("Finder", ["x"], ["y"], "outer", {"domain": "mine"}), out="int64", dynamic=False)
    model = onnx.load(str(file))
    inner = [helper.make_node("NonZero", ["a"], ["b"], name="inner")]
    imports = [helper.make_opsetid("", 18)]
    model.functions.append(helper.make_function("mine", "Finder", ["a"], ["b"], inner, imports))
    model.opset_import.append(helper.make_opsetid("mine", 1))
    onnx.save(model, str(file))
    said = gate(file, {})
    assert (said["verdict"], said["operator"]) == ("inconclusive", "NonZero")


def test_a_file_that_is_no_graph_fails(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no graph")
    said = gate(tmp_path / "model.onnx", {})
    assert (said["verdict"], said["node"]) == ("failed", "")

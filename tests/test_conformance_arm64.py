"""Every reference model on every target for linux/arm64, proven under emulation.

What passes natively must pass there too: neither the kernels for ARM nor the cross compiler may be worse.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.command import run

from convert.models.zoo import ZOO
from convert.platforms import EMULATED, host_platform

#: Calls what is only in TVM's second runtime library, so that one must come along.
SORTS = "ranker"
MODELS = [name if name == SORTS else pytest.param(name, marks=pytest.mark.slow) for name in ZOO]


@pytest.mark.toolkit
@pytest.mark.skipif(host_platform() != "linux/amd64", reason="only on x86-64 is arm64 emulated")
@pytest.mark.parametrize("model", MODELS)
def test_reference_model_on_arm64(model: str, tmp_path: Path) -> None:
    reference = ZOO[model]
    words = [word for text in reference.inputs for word in ("--input", text)]
    words += [word for text in reference.dims for word in ("--dim", text)]
    targets = ("tvm",) if model == SORTS else ("onnx", "tflite", "tvm")
    words += ["--target", ",".join(targets), "--platform", "linux/arm64", "--bench-seconds", "0"]
    done = run(reference.factory, *words, "--out", tmp_path / "out", cwd=tmp_path)
    report = json.loads((tmp_path / "out/report.json").read_text(encoding="utf-8"))
    assert [(one["target"], one["status"]) for one in report["artifacts"]] == [(name, "passed") for name in targets]
    assert done.code == 0
    golden = report["golden"]
    wanted = {(case["name"], output["name"]) for case in golden["cases"] for output in golden["outputs"]}
    for one in report["artifacts"]:
        assert {(check["case"], check["output"]) for check in one["checks"]} == wanted
        assert (one["proven"]["how"], one["latency"]) == ("emulated", None)
        assert any(note.startswith(EMULATED) for note in one["notes"])
    tvm = tmp_path / "out/linux-arm64/tvm/float32"
    assert (tvm / "libtvm_runtime.so").is_file()
    assert (tvm / "libtvm_runtime_extra.so").is_file() == (model == SORTS)

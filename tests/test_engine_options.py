"""Options of engines: refused before anything runs where no target can use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.command import run
from helpers.full_run import DIGITS

from convert.engine_options import settle_engine
from convert.errors import InputError
from convert.records_engine import EngineOptions

BOTH = ("trt", "trt-rtx")


@pytest.mark.parametrize(
    ("given", "targets", "wanted"),
    [
        ({}, ("onnx",), EngineOptions()),
        ({"hardware_compatible": None, "workspace": None, "engine_flags": (), "gpu": ()}, ("onnx",), EngineOptions()),
        ({"gpu": ("SM86, sm120", "sm86")}, ("trt-rtx",), EngineOptions(gpus=("sm86", "sm120"))),
        ({"workspace": "2G"}, ("trt",), EngineOptions(workspace=2 << 30)),
        ({"hardware_compatible": "none"}, ("onnx",), EngineOptions()),
        ({"hardware_compatible": "ampere-plus"}, BOTH, EngineOptions(hardware="ampere-plus")),
        ({"engine_flags": ("refit,strip-plan", "refit")}, BOTH, EngineOptions(flags=("refit", "strip-plan"))),
    ],
)
def test_what_is_asked(given: dict[str, Any], targets: tuple[str, ...], wanted: EngineOptions) -> None:
    assert settle_engine(given, targets) == wanted


@pytest.mark.parametrize(
    ("given", "targets", "text"),
    [
        (
            {"gpu": ("sm90",)},
            ("trt-rtx",),
            "--gpu 'sm90' is not served by TensorRT for RTX, which builds for sm75, sm80, sm86, sm89, sm120, sm121; "
            "for other GPUs, such as H100 (sm90) and B200 (sm100), use the target trt",
        ),
        ({"gpu": (",",)}, ("trt-rtx",), "--gpu names no compute capability; choose from sm75, sm80, sm86, sm89, sm120, "
         "sm121"),
        (
            {"gpu": ("sm86",)},
            ("trt",),
            "--gpu is for the target trt-rtx, and --target is trt; add trt-rtx, or leave --gpu out",
        ),
        (
            {"engine_flags": ("refit",)},
            ("trt-rtx",),
            "--engine-flag is for the target trt, which TensorRT for RTX cannot do without a GPU, and --target is "
            "trt-rtx; add trt, or leave --engine-flag out",
        ),
        (
            {"engine_flags": ("fp16",)},
            ("trt",),
            "--engine-flag 'fp16' is not known; choose from refit, strip-plan, version-compatible",
        ),
        (
            {"hardware_compatible": "all"},
            ("trt",),
            "--hardware-compatible 'all' is not known; choose from none, ampere-plus, same-compute-capability",
        ),
        ({"workspace": "much"}, ("trt",), "--workspace 'much' is not a size; write for example 8G or 512M"),
        (
            {"workspace": "1G"},
            ("onnx", "tvm"),
            "--workspace is for the target trt, and --target is onnx, tvm; add trt, or leave --workspace out",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(given: dict[str, Any], targets: tuple[str, ...], text: str) -> None:
    with pytest.raises(InputError) as caught:
        settle_engine(given, targets)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("-t trt-rtx --gpu sm90", "--gpu 'sm90' is not served by TensorRT for RTX"),
        ("-t trt --workspace 0", "--workspace '0' is not a size"),
        ("-t trt --hardware-compatible hopper", "--hardware-compatible 'hopper' is not known"),
        ("-t trt --engine-flag int8", "--engine-flag 'int8' is not known"),
        ("-t onnx --engine-flag refit", "--engine-flag is for the target trt, and --target is onnx"),
    ],
)
def test_the_command_refuses_them_before_it_runs(words: str, text: str, tmp_path: Path) -> None:
    done = run(DIGITS / "digits.pt2", *words.split(), cwd=tmp_path)
    assert (done.code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"convert: {text}")
    assert list(tmp_path.iterdir()) == []

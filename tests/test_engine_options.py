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
        ({"workspace": "512M"}, ("trt-rtx",), EngineOptions(workspace=512 << 20)),
        ({"workspace": "8388607T"}, ("trt",), EngineOptions(workspace=8388607 << 40)),
        ({"hardware_compatible": "ampere-plus"}, ("trt",), EngineOptions(hardware="ampere-plus")),
        ({"engine_flags": ("refit,strip-plan", "refit")}, ("trt",), EngineOptions(flags=("refit", "strip-plan"))),
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
            "--engine-flag is for the target trt, and TensorRT for RTX cannot do it without a GPU, and --target is "
            "trt-rtx; add trt and leave trt-rtx out, or leave --engine-flag out",
        ),
        *(
            (
                given,
                BOTH,
                f"{option} is for the target trt, and TensorRT for RTX cannot do it without a GPU; leave trt-rtx out "
                f"and make it by another run, or leave {option} out",
            )
            for option, given in (
                ("--engine-flag", {"engine_flags": ("refit",)}),
                ("--hardware-compatible", {"hardware_compatible": "ampere-plus"}),
            )
        ),
        (
            {"engine_flags": ("",)},
            ("trt",),
            "--engine-flag names no flag; choose from refit, strip-plan, version-compatible",
        ),
        (
            {"workspace": "8388608T"},
            ("trt",),
            "--workspace '8388608T' is more than TensorRT can be told; give at most 8388607T",
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
            "--workspace is for the target trt or trt-rtx, and --target is onnx, tvm; add trt or trt-rtx, or leave "
            "--workspace out",
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

"""What the user asked for, and the sentence that says why it cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from convert import options
from convert.errors import InputError
from convert.options import Options, parse_memory, parse_precisions, parse_targets, settle_opset
from convert.records import Kind, ModelRef
from convert.targets import TARGETS, load_target


def refusal(call: object, *args: object) -> str:
    """The text of the ``InputError`` of ``call(*args)``."""
    assert callable(call)
    with pytest.raises(InputError) as caught:
        call(*args)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("onnx", ("onnx",)),
        ("tvm,onnx", ("tvm", "onnx")),
        (" trt , tflite ,", ("trt", "tflite")),
        ("tvm,onnx,tvm", ("tvm", "onnx")),
    ],
)
def test_parse_targets(text: str, names: tuple[str, ...]) -> None:
    assert parse_targets(text) == names


@pytest.mark.parametrize(
    ("text", "culprit"), [("", "nothing"), (" , ", "nothing"), ("onnx,tensorrt,x", "tensorrt"), ("ONNX", "ONNX")]
)
def test_parse_targets_refuses(text: str, culprit: str) -> None:
    assert refusal(parse_targets, text) == (
        f"--target {text!r} names {culprit}; choose from {', '.join(TARGETS)} (several with commas between them)"
    )


def test_parse_precisions() -> None:
    assert parse_precisions("float16,float32,float16", ["onnx", "tvm"]) == ("float16", "float32")
    assert parse_precisions("float16", ["onnx", "tflite"]) == ("float16",)


def test_parse_precisions_refuses() -> None:
    offered = ", ".join(dict.fromkeys(one for name in TARGETS for one in load_target(name).precisions))
    for text, culprit in (("fp16", "fp16"), ("", "nothing")):
        assert refusal(parse_precisions, text, ["onnx"]) == (
            f"--precision {text!r} names {culprit}; choose from {offered} (several with commas between them)"
        )


def test_every_target_must_offer_a_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(load_target("tvm")), "precisions", ("float32",))
    assert refusal(parse_precisions, "float16", ["onnx", "tvm"]) == (
        "target tvm offers none of the precisions float16; it offers float32"
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8G", 8 * 2**30),
        ("512MiB", 512 * 2**20),
        ("512mb", 512 * 2**20),
        ("1.5k", 1536),
        ("2T", 2**41),
        ("4096", 4096),
        (" 1 GB ", 2**30),
        ("100B", 100),
    ],
)
def test_parse_memory(text: str, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "G", "-1G", "0", "0.0G", "8X", "8 G B", "1e9", "nan", "inf", "0.5", "0.0001K"])
def test_parse_memory_refuses(text: str) -> None:
    assert refusal(parse_memory, text) == f"--memory {text!r} is not a size; write for example 8G or 512M"


@pytest.fixture
def _limits(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fake:
        def __init__(self, newest: int) -> None:
            self.max_opset = newest

    newest = {"a": Fake(20), "b": Fake(18), "c": Fake(22)}
    monkeypatch.setattr(options, "load_target", newest.__getitem__)


@pytest.mark.usefixtures("_limits")
@pytest.mark.parametrize(
    ("asked", "targets", "settled"),
    [(None, "a", 20), (None, "ab", 18), (None, "ca", 20), (13, "ab", 13), (18, "ab", 18), (20, "ac", 20)],
)
def test_settle_opset(asked: int | None, targets: str, settled: int) -> None:
    assert settle_opset(asked, tuple(targets)) == settled


@pytest.mark.usefixtures("_limits")
@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (12, "--opset 12 is too old; allowed are 13 to 18 for a, b"),
        (0, "--opset 0 is too old; allowed are 13 to 18 for a, b"),
        (19, "--opset 19 is newer than target b reads; allowed are 13 to 18 for a, b"),
        (21, "--opset 21 is newer than target a reads; allowed are 13 to 18 for a, b"),
    ],
)
def test_settle_opset_refuses(asked: int, message: str) -> None:
    assert refusal(settle_opset, asked, ("a", "b")) == message


def test_work_is_every_target_with_every_precision() -> None:
    asked = Options(
        ref=ModelRef("m.pt2", Kind.EXPORTED),
        targets=("tvm", "onnx"),
        precisions=("float32", "float16"),
        inputs=(),
        dims=(),
        samples=None,
        opset=None,
        out=Path("out"),
        timeout=1.0,
        memory=None,
        threads=1,
        jobs=1,
        bench_seconds=0.0,
        allow_deferred=False,
    )
    assert [(target.name, precision) for target, precision in asked.work] == [
        ("tvm", "float32"),
        ("tvm", "float16"),
        ("onnx", "float32"),
        ("onnx", "float16"),
    ]

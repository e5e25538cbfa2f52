"""Every registered target can be read without its toolkit, and says all that the command line needs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from convert.errors import StageError
from convert.targets import TARGETS, load_target
from convert.toolchains import TOOLCHAINS

TOOLKITS = {
    "ai_edge_litert",
    "ai_edge_quantizer",
    "coremltools",
    "executorch",
    "jax",
    "litert_torch",
    "onnx",
    "onnx2tf",
    "onnxruntime",
    "onnxscript",
    "onnxslim",
    "openvino",
    "tensorflow",
    "tensorrt",
    "tensorrt_rtx",
    "tf_keras",
    "torch",
    "transformers",
    "tvm",
    "tvm_ffi",
}
PAIRS = [(name, precision) for name in TARGETS for precision in load_target(name).precisions]

READ_ALL = """
import json, sys
from convert.targets import TARGETS, load_target
for name in TARGETS:
    target = load_target(name)
    for precision in target.precisions:
        target.routes(precision), target.base_precision(precision)
    if target.device and not target.built_only:
        target.deferred_route()
    target.missing(), target.summary, target.tolerance
print(json.dumps(sorted(sys.modules)))
"""
READ_COMMAND_LINE = (
    "import json, sys, convert.cli, convert.pipeline, convert.options; print(json.dumps(sorted(sys.modules)))"
)


@pytest.mark.parametrize("code", [READ_ALL, READ_COMMAND_LINE])
def test_no_toolkit_is_imported(code: str) -> None:
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = json.loads(ended.stdout)
    assert "convert.targets.base" in modules
    assert {module.partition(".")[0] for module in modules} & TOOLKITS == set()


def test_names_are_those_of_the_registry_and_unique() -> None:
    assert [load_target(name).name for name in TARGETS] == list(TARGETS)
    assert len({type(load_target(name)) for name in TARGETS}) == len(TARGETS)
    assert {"onnx", "tflite", "tvm", "trt"} <= set(TARGETS)


def test_an_unknown_name_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="coral"):
        load_target("coral")


@pytest.mark.parametrize("name", TARGETS)
def test_metadata_is_whole(name: str) -> None:
    target = load_target(name)
    assert target.summary
    assert target.precisions
    assert len(set(target.precisions)) == len(target.precisions)
    assert target.max_opset >= 18
    assert target.runtime_toolchain in TOOLCHAINS
    assert target.gate_toolchain in {"", *TOOLCHAINS}
    assert target.distributions
    assert 1 <= target.tolerance.floors <= 50
    assert target.tolerance.reason


@pytest.mark.parametrize(("name", "precision"), PAIRS)
def test_every_precision_has_routes_that_can_be_followed(name: str, precision: str) -> None:
    target = load_target(name)
    routes = target.routes(precision)
    assert routes
    assert len({route.name for route in routes}) == len(routes)
    base = target.base_precision(precision)
    for route in routes:
        assert route.toolchain in TOOLCHAINS
        assert route.borrows is None or route.borrows in TOOLCHAINS
        assert route.needs in {"onnx", "source", "base"}
        assert (route.needs == "base") <= (base is not None)
    if base is not None:
        assert base in target.precisions
        assert target.base_precision(base) is None


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_can_be_deferred_exactly_when_it_needs_a_device_to_be_built(name: str) -> None:
    target = load_target(name)
    if target.device and not target.built_only:
        assert target.deferred_route().toolchain in TOOLCHAINS
    else:
        with pytest.raises(StageError, match=f"{name} cannot be deferred to another host"):
            target.deferred_route()

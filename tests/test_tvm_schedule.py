"""Rules for TVM's kernels: right at odd sizes, wrong ones are dropped, and whole nets keep the noise of float32."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.command import ROOT, python_of

from convert.golden_io import CaseData, save_arrays
from convert.targets.tvm_schedule.check import unlike
from convert.targets.tvm_schedule.comparison import deviation
from convert.targets.tvm_schedule.constants import folded
from convert.targets.tvm_schedule.convolution import Window
from convert.targets.tvm_schedule.convolution import pack as pack_convolution
from convert.targets.tvm_schedule.product import pack as pack_product
from convert.targets.tvm_schedule.registers import AVX512, NEON64, SSE, Registers
from convert.targets.tvm_schedule.report import Kernel, Report
from convert.targets.tvm_schedule.tiles import depthwise_tile, gemm_tile

onnx = pytest.importorskip("onnx")

RUN = ROOT / "tests" / "helpers" / "tvm_schedule_run.py"
NEON = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72"}
#: Name -> rule, image (N, C, H, W), outputs, kernel, and attributes of Conv.
CONVOLUTIONS: dict[str, tuple[str, tuple[int, ...], int, int, dict[str, Any]]] = {
    "first": ("conv2d", (1, 3, 23, 19), 17, 3, {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "first-seven": ("conv2d", (2, 3, 30, 33), 24, 7, {"strides": [2, 2], "pads": [3, 3, 3, 3]}),
    "three": ("conv2d", (3, 17, 9, 14), 24, 3, {"pads": [1, 1, 1, 1]}),
    "dilated": ("conv2d", (1, 24, 15, 15), 40, 3, {"dilations": [2, 3], "pads": [2, 3, 2, 3]}),
    "lopsided": ("conv2d", (1, 16, 11, 12), 32, 2, {"strides": [2, 3], "pads": [0, 1, 1, 0]}),
    "one": ("conv2d-1x1", (3, 17, 7, 13), 24, 1, {}),
    "one-strided": ("conv2d-1x1", (1, 32, 15, 14), 48, 1, {"strides": [2, 2]}),
    "one-pixel": ("conv2d-1x1", (1, 24, 1, 1), 1000, 1, {}),
    "grouped": ("conv2d-grouped", (1, 24, 9, 10), 96, 3, {"group": 2, "pads": [1, 1, 1, 1]}),
    "grouped-narrow": ("default", (1, 12, 9, 10), 24, 3, {"group": 4, "pads": [1, 1, 1, 1]}),
    "depthwise": ("depthwise", (2, 32, 15, 16), 32, 3, {"group": 32, "pads": [1, 1, 1, 1]}),
    "depthwise-odd": ("depthwise", (1, 17, 13, 11), 17, 3, {"group": 17, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "depthwise-five": ("depthwise", (1, 24, 19, 14), 24, 5, {"group": 24, "dilations": [2, 2], "pads": [4, 4, 4, 4]}),
    "depthwise-seven": ("depthwise", (1, 40, 14, 14), 40, 7, {"group": 40, "pads": [3, 3, 3, 3]}),
    "depthwise-bare": ("depthwise", (1, 64, 8, 9), 64, 3, {"group": 64}),
}
#: Name -> rule, shapes of the inputs (a name is a size that is known at run time), whether weights are constant.
PRODUCTS: dict[str, tuple[str, tuple[tuple[int | str, ...], ...], bool]] = {
    "dense": ("dense", ((64, 48), (48, 32)), True),
    "dense-vector": ("dense", ((1, 17), (17, 1000)), True),
    "dense-tokens": ("dense", ((2, 197, 24), (24, 17)), True),
    "dense-sequence": ("dense", ((33, 1, 24), (24, 40)), True),
    "dense-batch": ("dense", (("N", 24), (24, 40)), True),
    "dense-length": ("dense", (("N", "T", 24), (24, 40)), True),
    "matmul": ("matmul", ((2, 3, 13, 17), (2, 3, 17, 19)), False),
    "matmul-spread": ("matmul", ((2, 1, 13, 17), (3, 17, 64)), False),
    "matmul-batch": ("matmul", (("N", 3, 13, 17), ("N", 3, 17, 19)), False),
    "matmul-length": ("matmul", (("N", 3, "T", 17), ("N", 3, 17, "T")), False),
}
#: Name -> rule, operator, input, weights and attributes: sequences, volumes, and what enlarges an image.
OTHERS: dict[str, tuple[str, str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "sequence": ("conv2d", "Conv", (2, 17, 33), (24, 17, 5), {"pads": [4, 0], "dilations": [2], "strides": [2]}),
    "sequence-depthwise": ("depthwise", "Conv", (1, 24, 19), (24, 1, 3), {"pads": [1, 1], "group": 24}),
    "volume": ("default", "Conv", (1, 3, 5, 9, 16), (8, 3, 3, 3, 3), {"pads": [1] * 6}),
    "enlarged": ("conv2d-transposed", "ConvTranspose", (2, 17, 7, 9), (17, 24, 2, 2), {"strides": [2, 2]}),
    "enlarged-more": (
        "conv2d-transposed",
        "ConvTranspose",
        (1, 24, 6, 5),
        (24, 17, 3, 4),
        {"strides": [2, 3], "pads": [1, 0, 1, 1], "output_padding": [1, 0], "dilations": [1, 2]},
    ),
    "enlarged-groups": ("default", "ConvTranspose", (1, 8, 6, 5), (8, 3, 3, 3), {"strides": [2, 2], "group": 2}),
}
#: Sizes for those that are known at run time.
OPEN = ({"N": 1, "T": 1}, {"N": 3, "T": 7}, {"N": 5, "T": 18})
#: Name -> operators on [2, 24, 13, 12], one after the other.
PLAIN: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "plain-softmax": (("Softmax", {"axis": -1}), ("Exp", {})),
    "plain-mean": (("ReduceMean", {"axes": [3]}),),
    "plain-pools": (("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2]}), ("GlobalAveragePool", {})),
    "plain-average": (("AveragePool", {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1]}), ("Sigmoid", {})),
    "plain-turned": (("Transpose", {"perm": [0, 2, 3, 1]}), ("Tanh", {})),
}


def random(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def convolution(image: tuple[int, ...], outputs: int, kernel: int, attributes: dict[str, Any]) -> Any:
    """With all that is fused into one: bias, a sum with something else, and a clip."""
    from onnx import helper

    group = attributes.get("group", 1)
    weights = random((outputs, image[1] // group, kernel, kernel)) / np.float32((image[1] // group * kernel**2) ** 0.5)
    stored = {"w": weights, "b": random((outputs,)), "low": np.float32(-1), "high": np.float32(1.5)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], kernel_shape=[kernel, kernel], **attributes),
        helper.make_node("Sin", ["c"], ["s"]),
        helper.make_node("Add", ["s", "c"], ["a"]),
        helper.make_node("Clip", ["a", "low", "high"], ["y"]),
    ]
    return model(nodes, {"x": image}, stored)


def multiplication(shapes: tuple[tuple[int | str, ...], ...], constant: bool) -> Any:
    from onnx import helper

    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    if not constant:
        return model(nodes, {"x": shapes[0], "w": shapes[1]}, {})
    weights = random(tuple(int(size) for size in shapes[1]))
    nodes[1:] = [helper.make_node("Add", ["p", "b"], ["q"]), helper.make_node("Relu", ["q"], ["y"])]
    return model(nodes, {"x": shapes[0]}, {"w": weights, "b": random((weights.shape[1],))})


def other(kind: str, x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any]) -> Any:
    """Between two convolutions of images, where there are images, so that the layout has to be kept or changed."""
    from onnx import helper

    stored, nodes, at = {"w": random(w) / np.float32(len(w) * 3)}, [], "x"
    if len(x) == 4:
        stored["first"] = random((x[1], x[1], 1, 1)) / np.float32(x[1] ** 0.5)
        nodes, at = [helper.make_node("Conv", ["x", "first"], ["t"])], "t"
    nodes += [helper.make_node(kind, [at, "w"], ["z"], **attributes), helper.make_node("Relu", ["z"], ["y"])]
    return model(nodes, {"x": x}, stored)


def chain(operators: tuple[tuple[str, dict[str, Any]], ...]) -> Any:
    from onnx import helper

    names = ["x", *(f"t{place}" for place in range(len(operators) - 1)), "y"]
    nodes = [
        helper.make_node(kind, [names[place]], [names[place + 1]], **attributes)
        for place, (kind, attributes) in enumerate(operators)
    ]
    return model(nodes, {"x": (2, 24, 13, 12)}, {}, opset=17)


def mobile() -> Any:
    """Inverted residuals with a dynamic batch: what a whole net of this kind has."""
    from onnx import helper

    stored: dict[str, Any] = {"low": np.float32(0), "high": np.float32(6), "axes": np.asarray([2, 3])}
    nodes: list[Any] = []

    def conv(name: str, x: str, channels: int, outputs: int, kernel: int, clip: bool = True, **more: Any) -> str:
        fan = channels // more.get("group", 1) * kernel**2
        stored[f"{name}.w"] = random((outputs, channels // more.get("group", 1), kernel, kernel)) * np.float32(
            (2 / fan) ** 0.5
        )
        stored[f"{name}.b"] = random((outputs,)) * np.float32(0.1)
        pads = [kernel // 2] * 4
        nodes.append(helper.make_node("Conv", [x, f"{name}.w", f"{name}.b"], [name], pads=pads, **more))
        if clip:
            nodes.append(helper.make_node("Clip", [name, "low", "high"], [f"{name}.c"]))
        return f"{name}.c" if clip else name

    at, channels = conv("stem", "x", 3, 16, 3, strides=[2, 2]), 16
    for place, (outputs, stride) in enumerate(((24, 2), (24, 1), (40, 2), (40, 1))):
        start, wide = at, channels * 6
        at = conv(f"{place}.up", at, channels, wide, 1)
        at = conv(f"{place}.dw", at, wide, wide, 3, group=wide, strides=[stride, stride])
        at = conv(f"{place}.down", at, wide, outputs, 1, clip=False)
        if stride == 1:
            nodes.append(helper.make_node("Add", [start, at], [f"{place}.sum"]))
            at = f"{place}.sum"
        channels = outputs
    at = conv("head", at, channels, 160, 1)
    nodes.append(helper.make_node("ReduceMean", [at, "axes"], ["mean"], keepdims=0))
    stored |= {"fc.w": random((100, 160)) / np.float32(160**0.5), "fc.b": random((100,))}
    nodes.append(helper.make_node("Gemm", ["mean", "fc.w", "fc.b"], ["y"], transB=1))
    return model(nodes, {"x": ("N", 3, 64, 64)}, stored)


def model(nodes: list[Any], inputs: dict[str, tuple[int | str, ...]], stored: dict[str, Any], opset: int = 18) -> Any:
    from onnx import TensorProto, helper, numpy_helper

    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    graph = helper.make_graph(nodes, "g", values, [result], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def feeds(one: Any) -> list[dict[str, Any]]:
    """One case where all sizes are known, else several."""
    shapes = {
        entry.name: [size.dim_param or size.dim_value for size in entry.type.tensor_type.shape.dim]
        for entry in one.graph.input
    }
    dynamic = any(isinstance(size, str) for shape in shapes.values() for size in shape)
    return [
        {name: random(tuple(sizes.get(size, size) for size in shape), 1) for name, shape in shapes.items()}
        for sizes in (OPEN if dynamic else OPEN[:1])
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import onnxruntime

    place = tmp_path_factory.mktemp("schedule")
    models = {name: convolution(*one[1:]) for name, one in CONVOLUTIONS.items()}
    models |= {name: other(*one[1:]) for name, one in OTHERS.items()}
    models |= {name: multiplication(*one[1:]) for name, one in PRODUCTS.items()}
    models |= {name: chain(one) for name, one in PLAIN.items()} | {"mobile": mobile()}
    for name, one in models.items():
        onnx.save(one, str(place / f"{name}.onnx"))
        session = onnxruntime.InferenceSession(one.SerializeToString(), providers=["CPUExecutionProvider"])
        arrays: dict[str, Any] = {}
        for case, given in enumerate(feeds(one)):
            arrays |= {f"{case}/in/{key}": value for key, value in given.items()}
            arrays |= {f"{case}/out/{place}": value for place, value in enumerate(session.run(None, given))}
        np.savez(place / f"{name}.npz", **arrays)
    return place


def outcomes(folder: Path, *target: str) -> dict[str, Any]:
    words = [str(python_of("tvm")), str(RUN), str(folder), *target]
    path = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ | path)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    return outcomes(folder)


@pytest.fixture(scope="module")
def for_arm(folder: Path) -> dict[str, Any]:
    return outcomes(folder, json.dumps(NEON))


RULED = {name: one[0] for name, one in (CONVOLUTIONS | PRODUCTS | OTHERS).items()} | dict.fromkeys(PLAIN, "default")


@pytest.mark.toolkit
@pytest.mark.parametrize("name", RULED)
def test_right_at_odd_sizes(found: dict[str, Any], name: str) -> None:
    assert found[name]["error"] < 3e-6
    assert RULED[name] in found[name]["rules"], found[name]
    assert not found[name]["dropped"]
    assert "problem" not in found[name]


@pytest.mark.slow
@pytest.mark.toolkit
@pytest.mark.parametrize("name", RULED)
def test_right_with_the_registers_of_another_cpu(for_arm: dict[str, Any], name: str) -> None:
    assert for_arm[name]["error"] < 3e-6
    assert RULED[name] in for_arm[name]["rules"], for_arm[name]
    assert not for_arm[name]["dropped"]
    assert {one[1].get("lanes", 4) for one in for_arm[name]["kernels"].values()} <= {2, 4}


@pytest.mark.toolkit
def test_a_whole_net_of_dynamic_batch_keeps_the_noise_of_float32(found: dict[str, Any]) -> None:
    net = found["mobile"]
    assert net["error"] < 3e-6
    assert not net["dropped"]
    assert net["rules"]["depthwise"] == 4
    assert net["rules"]["conv2d-1x1"] == 8  # two of nine are the same
    assert net["rules"]["conv2d"] == net["rules"]["dense"] == 1


@pytest.mark.toolkit
def test_a_wrong_rule_is_dropped_and_reported(found: dict[str, Any]) -> None:
    assert found["dense"]["rules"]["dense"] == 1
    for name, why in (("!float16", "differs with one thread"), ("!refused", "cannot be applied")):
        [dropped] = found[name]["dropped"].values()
        assert dropped.startswith("dense: ")
        assert why in dropped
        assert "dense" not in found[name]["rules"]
        assert found[name]["error"] < 3e-6


@pytest.mark.toolkit
def test_races_and_wrong_indices_are_seen(found: dict[str, Any]) -> None:
    trials = found["!trials"]
    assert trials["race"] == "every iteration of k writes to the same place of y"
    assert "differs with one thread" in trials["index"]
    assert "it writes beside its arguments" in trials["beside"]
    assert trials["crash"] == "the process that ran it ended, or took too long"
    assert trials["constant"] == "its results on random data say nothing"
    assert trials["large"].endswith("it is too large to be compared: 2.7e+11 steps, at most 5e+10")
    assert trials["right"] == trials["alone"] == ""


@pytest.mark.toolkit
def test_a_build_falls_back_on_the_module_of_tvm(found: dict[str, Any]) -> None:
    other, unbuilt = found["!other"], found["!unbuilt"]
    assert other["problem"] == "not used: the rules: output y is not the source's"
    assert unbuilt["problem"].startswith("not used: the rules: it cannot be built: ")
    assert max(other["error"], unbuilt["error"]) < 1e-5


def test_a_module_is_compared_in_the_cases_that_it_takes(tmp_path: Path) -> None:
    for name, size in (("a", 2), ("b", 3)):
        data = CaseData({"x": random((size, 4))}, {"y": random((size, 4)) * np.float32(2)}, {})
        save_arrays(tmp_path / f"{name}.npz", data)
    cases = [SimpleNamespace(name=name, file=f"{name}.npz") for name in "ab"]
    golden: Any = SimpleNamespace(cases=cases, inputs=[SimpleNamespace(name="x")], outputs=[SimpleNamespace(name="y")])
    limits = {name: {"y": {"max_error": 1e-3}} for name in "ab"}
    seen: list[tuple[int, ...]] = []

    def engine(feeds: list[Any]) -> list[Any]:
        seen.append(feeds[0].shape)
        return [feeds[0] * 2 + (0.01 if len(feeds[0]) == 3 else 0)]

    assert unlike(engine, [[2, 4]], golden, tmp_path, limits) == ""
    assert seen == [(2, 4)]
    assert unlike(engine, [[object(), 4]], golden, tmp_path, limits) == "output y is not the source's in case b"
    assert unlike(engine, [[3, 4]], golden, tmp_path, {"a": limits["a"]}) == ""


def test_tiles_fit_the_registers() -> None:
    for registers in (AVX512, NEON64, SSE, Registers(8, 16)):
        for high, wide, columns in ((112, 112, 32), (7, 7, 960), (1, 1, 1000), (1, 197, 17), (64, 1, 256), (3, 5, 3)):
            tile = gemm_tile(high, wide, columns, registers)
            assert tile.high * tile.wide * tile.vectors + tile.vectors + 1 <= registers.count
            assert tile.high <= high
            assert tile.wide <= wide
            assert tile == gemm_tile(high, wide, columns, registers)
    assert gemm_tile(None, 7, 64, AVX512).wide == gemm_tile(1, None, 64, AVX512).high == 1


def test_the_best_tile_of_known_sizes() -> None:
    assert gemm_tile(112, 112, 96, AVX512).plain() == {"high": 1, "wide": 14, "vectors": 2, "lanes": 16, "unroll": 1}
    assert gemm_tile(1, 1, 1000, AVX512).vectors == 4
    assert depthwise_tile(56, 56, 144, AVX512).plain() == {
        "high": 4, "wide": 14, "vectors": 1, "blocks": 3, "lanes": 16,
    }  # fmt: skip


def test_packed_weights_are_filled_up_with_zeros() -> None:
    weights = random((3, 2, 5, 17))
    packed = pack_convolution(weights, 8)
    assert packed.shape == (3, 3, 2, 5, 8)
    assert np.array_equal(packed[1, :, :, :, 3], weights[..., 11])
    assert not packed[2, ..., 1:].any()
    matrix = random((5, 9))
    assert np.array_equal(pack_product(matrix, 4)[2, :, 0], matrix[:, 8])
    assert pack_product(matrix, 4).shape == (3, 5, 4)


def test_sizes_of_a_window() -> None:
    window = Window((2, 1), (1, 0, 1, 0), (1, 2))
    assert window.outputs(0, 23, 3) == 12
    assert window.outputs(1, 23, 3) == 19
    assert window.extent(0, 12, 3) == 25
    assert window.extent(1, 19, 3) == 23


def test_a_deviation_is_told_from_rounding() -> None:
    right = random((1000,))
    noise = right * np.float32(1 + 1e-6)
    why, share = deviation(right, noise, 1000)
    assert why == ""
    assert 0 < share < 0.1
    other = right.copy()
    other[3] += 1e-2
    why, share = deviation(right, other, 1000)
    assert why.endswith("(sums of 1000)")
    assert share > 100
    other[3] = np.nan
    assert deviation(right, other, 1000) == ("other values are infinite or no numbers", math.inf)
    assert deviation(other, other, 1000) == ("", 0)
    assert deviation(np.arange(3), np.asarray([0, 1, 3]), 1) == ("1 values are others", math.inf)


def test_a_report_in_the_manifest() -> None:
    kernels = (Kernel("a", "dense"), Kernel("b", "dense"), Kernel("c", "conv2d", dropped="differs"))
    assert Report(kernels).summary() == {"rules": {"dense": 2}, "dropped": {"c": "conv2d: differs"}}
    assert Report(problem="why").summary()["problem"] == "why"


def test_only_constants_are_folded() -> None:
    class Call:
        class op:
            name = "relax.add"

        class ty:
            dtype = "float32"

        args = (1, 2)

    assert folded(Call, {1: random((3,)), 2: None}.get) is None
    result = folded(Call, {1: np.ones(3, np.float32), 2: np.ones(3, np.float32)}.get)
    assert result is not None
    assert result.tolist() == [2, 2, 2]
    assert folded(Call, {1: np.ones(3, np.int64), 2: np.ones(3, np.int64)}.get) is None

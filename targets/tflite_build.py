"""The converters that write TFLite files; each function writes one file and returns notes for the report."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from convert.errors import StageError
from convert.specs import shape_at
from convert.targets import tflite_measure, tflite_quant
from convert.targets.base import BuildRequest
from convert.targets.tflite_resize import litert_torch_resized

#: An ASCII name without spaces: onnx2tf derives names of files and tensors from it.
_PLAIN = "model"
#: At most so many samples of the calibration data go to TensorFlow's converter, which wants them in one file.
_SAMPLES = 512


def litert_torch(request: BuildRequest, file: Path) -> tuple[str, ...]:
    """From the module with every size fixed at its optimum; the runtime may still be able to resize the file."""
    import litert_torch as converter

    source = _source(request)
    converter.convert(source.module, source.example).export(str(file))
    return ()


def litert_torch_dynamic(request: BuildRequest, file: Path) -> tuple[str, ...]:
    """From the module with dynamic sizes, which the converter supports for few operators."""
    import litert_torch as converter

    if not request.golden.dims:
        raise StageError("there is no dynamic dimension, so this route is the same as litert-torch")
    from convert.targets.torch_shapes import dynamic_shapes

    source = _source(request)
    converter.convert(source.module, source.example, dynamic_shapes=(dynamic_shapes(request.golden),)).export(str(file))
    return ()


def _source(request: BuildRequest) -> Any:
    if request.source is None:
        raise StageError(f"route {request.route} needs the live module, and the source is a graph")
    return request.source()


def onnx2tf_direct(request: BuildRequest, file: Path) -> tuple[str, ...]:
    """onnx2tf's own flatbuffer writer, from a copy of the graph with its dynamic sizes."""
    _run_onnx2tf(request, file, _copy(request), "flatbuffer_direct")
    return ()


def onnx2tf_frozen(request: BuildRequest, file: Path) -> tuple[str, ...]:
    """The same with every size fixed at its optimum first."""
    if not request.golden.dims:
        raise StageError("there is no dynamic dimension, so this route is the same as onnx2tf")
    copy = _copy(request)
    _freeze(copy, request)
    _run_onnx2tf(request, file, copy, "flatbuffer_direct")
    return ("every size was fixed at its optimum before the conversion",)


def tf_converter(request: BuildRequest, file: Path) -> tuple[str, ...]:
    """onnx2tf to a SavedModel, then TensorFlow's own converter."""
    _run_onnx2tf(request, file, _copy(request), "tf_converter")
    return ()


def tf_converter_quantized(request: BuildRequest, file: Path) -> tuple[str, ...]:
    """The same with TensorFlow's own quantization, sizes fixed: it takes minimum and maximum, and keeps no layer."""
    if request.calibration is None or request.ranges is not None or request.keep:
        raise StageError("TensorFlow's converter quantizes with calibration data only, and the whole of the model")
    copy = _copy(request)
    _freeze(copy, request)
    batches = list(tflite_measure.first(request.calibration, _SAMPLES))
    data = [[spec.name, _stacked(request, batches, spec.name), 0.0, 1.0] for spec in request.golden.inputs]
    made = "full_integer_quant" if request.quantization.io_type == "int8" else "integer_quant"
    made += "_with_int16_act" if request.precision == "int16x8" else ""
    _run_onnx2tf(
        request,
        file,
        copy,
        "tf_converter",
        made,
        output_integer_quantized_tflite=True,
        custom_input_op_name_np_data_path=data,
    )
    sizes = ", ".join(f"{dim.name}={dim.opt}" for dim in request.golden.dims)
    fixed = (f"{tflite_quant.FIXED_AT} {sizes}",) if sizes else ()
    return (f"ranges measured by TensorFlow on {len(batches)} batches by minmax", *fixed)


def _stacked(request: BuildRequest, batches: Sequence[Mapping[str, Any]], name: str) -> str:
    """A file with all batches of one input along its first axis, which the converter cuts apart again."""
    import numpy as np

    opt = {dim.name: dim.opt for dim in request.golden.dims}
    first = {shape_at(spec, opt)[:1] for spec in request.golden.inputs}
    if not batches or len(first) != 1 or first == {()}:
        raise StageError("onnx2tf cuts calibration data along one first axis, which these inputs do not share")
    path = request.scratch / f"calibration-{len(list(request.scratch.iterdir()))}.npy"
    np.save(path, np.concatenate([batch[name] for batch in batches]))
    return str(path)


def float_casting(request: BuildRequest, file: Path) -> tuple[str, ...]:
    """float16 weights from the float32 file that passed."""
    from ai_edge_quantizer import quantizer, recipe_manager
    from ai_edge_quantizer.algorithm_manager import AlgorithmName
    from ai_edge_quantizer.qtyping import (
        ComputePrecision,
        OpQuantizationConfig,
        TensorDataType,
        TensorQuantizationConfig,
        TFLOperationName,
    )

    assert request.base is not None and request.base_folder is not None  # noqa: S101, PT018  (needs="base")
    manager = recipe_manager.RecipeManager()
    manager.add_quantization_config(
        regex=".*",
        operation_name=TFLOperationName.ALL_SUPPORTED,
        algorithm_key=AlgorithmName.FLOAT_CASTING,
        op_config=OpQuantizationConfig(
            weight_tensor_config=TensorQuantizationConfig(num_bits=16, dtype=TensorDataType.FLOAT),
            compute_precision=ComputePrecision.FLOAT,
            explicit_dequantize=True,
        ),
    )
    work = quantizer.Quantizer(str(request.base_folder / request.base.files[0]), manager.get_quantization_recipe())
    work.quantize().export_model(str(file))
    return (f"weights cast from the float32 file of route {request.base.route}",)


def _copy(request: BuildRequest) -> Path:
    # onnx2tf overwrites the file that it is given.
    assert request.onnx is not None  # noqa: S101  (a route that needs onnx gets it)
    copy = request.scratch / f"{_PLAIN}.onnx"
    shutil.copyfile(request.onnx, copy)
    data = request.onnx.with_name(request.onnx.name + ".data")
    if data.is_file():
        shutil.copyfile(data, request.scratch / data.name)
    return copy


def _freeze(file: Path, request: BuildRequest) -> None:
    import onnx

    opt = {dim.name: dim.opt for dim in request.golden.dims}
    model = onnx.load(str(file))
    for value, spec in zip(model.graph.input, request.golden.inputs, strict=True):
        for axis, size in zip(value.type.tensor_type.shape.dim, shape_at(spec, opt), strict=True):
            axis.dim_value = size
    for value in (*model.graph.output, *model.graph.value_info):
        value.type.tensor_type.ClearField("shape")
    onnx.save(onnx.shape_inference.infer_shapes(model), str(file))


def _run_onnx2tf(
    request: BuildRequest, file: Path, model: Path, backend: str, made: str = "float32", **more: Any
) -> None:
    """Convert ``model`` and move the file of the kind ``made`` to ``file``."""
    import onnx2tf

    out = request.scratch / "onnx2tf"
    onnx2tf.convert(
        input_onnx_file_path=str(model),
        output_folder_path=str(out),
        tflite_backend=backend,
        non_verbose=True,
        # Else inputs of three and more axes become channels-last.
        keep_shape_absolutely_input_names=[spec.name for spec in request.golden.inputs],
        **more,
    )
    result = out / f"{_PLAIN}_{made}.tflite"
    if not result.is_file():
        raise StageError(f"onnx2tf ({backend}) ended without an error and wrote no {made} file")
    shutil.move(result, file)


ROUTES: dict[str, Callable[[BuildRequest, Path], tuple[str, ...]]] = {
    "litert-torch": litert_torch,
    "litert-torch-resized": litert_torch_resized,
    "litert-torch-dynamic": litert_torch_dynamic,
    "onnx2tf": onnx2tf_direct,
    "onnx2tf-frozen": onnx2tf_frozen,
    "tf_converter": tf_converter,
    "float_casting": float_casting,
    "ai-edge-quantizer": tflite_quant.build,
    "ai-edge-quantizer-frozen": tflite_quant.build_frozen,
    "tf_converter-quantized": tf_converter_quantized,
}

"""Ask the converters of another toolchain which of the model's operators they know. Runs in that toolchain."""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import Callable, Collection
from typing import Any

from convert.inspect_records import Questions, RouteAnswer
from convert.serial import from_plain


def answer(args: dict[str, Any]) -> list[dict[str, Any]]:
    """One answer for each of ``args['routes']`` (target and route), in that order; never fails for a single route."""
    questions = from_plain(Questions, args["questions"])
    return [
        {"target": target, "answer": _ask(f"{target}:{route}", route, questions)} for target, route in args["routes"]
    ]


def _ask(key: str, route: str, questions: Questions) -> RouteAnswer:
    if key not in _KNOWN:
        return RouteAnswer(
            route, None, reason="it has no list of operators to ask; its parser is asked when converting"
        )
    of_program, known = _KNOWN[key]
    wanted = questions.program if of_program else questions.onnx
    if wanted is None:
        return RouteAnswer(route, None, reason=questions.why_no_program if of_program else questions.why_no_onnx)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lacking = tuple(sorted(set(wanted) - set(known())))
    except Exception as error:  # a registry that moved
        return RouteAnswer(route, None, reason=f"could not be asked ({type(error).__name__}: {error})"[:300])
    return RouteAnswer(route, not lacking, lacking)


def _tvm_onnx() -> Collection[str]:
    from convert.targets.tvm_frontend import known_operators

    return known_operators()


def _tvm_program() -> Collection[str]:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

    return {str(key) for key in ExportedProgramImporter().convert_map}


def _onnx2tf_direct() -> Collection[str]:
    from onnx2tf.tflite_builder.op_registry import get_supported_onnx_ops

    return {*get_supported_onnx_ops(), "Constant"}


def _onnx2tf_tensorflow() -> Collection[str]:
    from onnx2tf import ops

    # One module per operator, looked up by its name.
    return {module.name for module in pkgutil.iter_modules(ops.__path__)} | {"Constant"}


#: Target and route -> whether it starts from the program (else from ONNX), and what gives the operators it knows.
_KNOWN: dict[str, tuple[bool, Callable[[], Collection[str]]]] = {
    "tflite:onnx2tf": (False, _onnx2tf_direct),
    "tflite:onnx2tf-frozen": (False, _onnx2tf_direct),
    "tflite:tf_converter": (False, _onnx2tf_tensorflow),
    "tvm:onnx": (False, _tvm_onnx),
    "tvm:exported-program": (True, _tvm_program),
    "tvm:onnx-buckets": (False, _tvm_onnx),
}

"""Ask the converters that lie beside the model's own torch which operators they know, after their own decompositions.

Each of them is asked through its own registry, which is not its public interface: where that has moved, the answer is
that it could not be asked, and never that it takes everything.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from convert.inspect_records import Questions, RouteAnswer
from convert.models.factory import one_line
from convert.records import Kind
from convert.stages.inspect_graph import Exported, targets_of
from convert.stages.randomness import operator_name
from convert.targets.onnx_nodes import nodes_of_file, qualified

#: The opset that all targets of the project read.
_OPSET = 18
_DYNAMO, _SCRIPT, _LITERT, _LITERT_DYNAMIC = "dynamo", "torchscript", "litert-torch", "litert-torch-dynamic"
Answers = dict[str, tuple[RouteAnswer, ...]]


def ask(exported: Exported, kind: Kind, dynamic: bool, say: Callable[[str], None]) -> tuple[Answers, Questions]:
    """Ask torch's two ONNX exporters and litert-torch; prepare what converters in other environments are asked.

    Args:
        exported: what became of ``torch.export``.
        kind: of the source.
        dynamic: whether a size is dynamic.
        say: takes lines for the progress display.
    """
    if exported.program is None:
        return _unexported(exported, kind, dynamic)
    say("asking the ONNX exporters")
    dynamo = _answer(_DYNAMO, _lacking_dynamo, exported)
    onnx, why_no_onnx = _onnx_operators(exported) if dynamo.takes_all else (None, f"no graph by {_DYNAMO}")
    program, why_no_program = _core_operators(exported)
    say("asking litert-torch")
    litert = _answer(_LITERT, _lacking_litert, exported)
    answers = {
        "onnx": (dynamo, _answer(_SCRIPT, _lacking_script, exported)),
        "tflite": (litert, RouteAnswer(_LITERT_DYNAMIC, litert.takes_all, litert.lacking, litert.reason))[
            : 1 + dynamic
        ],
    }
    return answers, Questions(onnx, program, why_no_onnx, why_no_program)


def ask_about_graph(path: str) -> tuple[Answers, Questions]:
    """The same for an ONNX file: there is nothing to export, and no module for the routes that need one."""
    why = "needs the live module, and the source is a graph"
    operators = tuple(sorted({qualified(node) for node in nodes_of_file(path)}))
    answers: Answers = {
        "onnx": (RouteAnswer("as-given", True, reason="the file is run as it is"),),
        "tflite": (RouteAnswer(_LITERT, None, reason=why),),
    }
    return answers, Questions(operators, None, why_no_program=why)


def _unexported(exported: Exported, kind: Kind, dynamic: bool) -> tuple[Answers, Questions]:
    why = f"torch.export gives no program ({exported.error})"
    script = "its operators are not known without a program"
    if exported.control_flow is not None and kind is not Kind.TORCHSCRIPT:
        script = "a trace would freeze the branch that the example takes"
    litert = [RouteAnswer(name, False, reason=why) for name in (_LITERT, _LITERT_DYNAMIC)[: 1 + dynamic]]
    takes = False if exported.control_flow is not None and kind is not Kind.TORCHSCRIPT else None
    answers: Answers = {
        "onnx": (RouteAnswer(_DYNAMO, False, reason=why), RouteAnswer(_SCRIPT, takes, reason=script)),
        "tflite": tuple(litert),
    }
    return answers, Questions(None, None, why, why)


def _answer(route: str, lacking: Callable[[Exported], set[str]], exported: Exported) -> RouteAnswer:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names = tuple(sorted(lacking(exported)))
    except Exception as error:  # a registry that moved, or a decomposition that fails
        return RouteAnswer(route, None, reason=f"could not be asked ({one_line(error)})")
    return RouteAnswer(route, not names, names)


def _lacking_dynamo(exported: Exported) -> set[str]:
    from torch.onnx._internal.exporter._fx_passes import decompose_with_registry
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    registry = ONNXRegistry.from_torchlib()
    program = decompose_with_registry(exported.program, registry)
    return {operator_name(target) for target in targets_of(program) if not registry.get_decomps(target)}


def _lacking_script(exported: Exported) -> set[str]:
    """The exporter that traces has a table of its own, by the names from before any decomposition."""
    from importlib import import_module

    root = "torch.onnx._internal.torchscript_exporter"
    for opset in range(7, _OPSET + 1):
        import_module(f"{root}.symbolic_opset{opset}")
    registry = import_module(f"{root}.registration").registry
    found = set()
    for name in {operator_name(target) for target in targets_of(exported.program)}:
        plain = name.replace(".", "::", 1)
        # It makes in-place operators out-of-place first.
        if not any(registry.is_registered_op(form, _OPSET) for form in (plain, plain.removesuffix("_"))):
            found.add(name)
    return found


def _lacking_litert(exported: Exported) -> set[str]:
    """The passes of ``litert_torch.convert`` up to the point where it looks for the lowering of each operator."""
    from litert_torch import fx_infra
    from litert_torch._convert import core
    from litert_torch.backend import lowerings

    program = fx_infra.graph_utils.reset_from_node_meta(_fresh(exported))
    program = fx_infra.safe_run_decompositions(program, fx_infra.decomp.pre_convert_decomp(), can_skip=False)
    program = core._run_convert_passes(program)
    program = fx_infra.safe_run_decompositions(program, fx_infra.decomp.pre_lower_decomp(), can_skip=False)
    return {operator_name(target) for target in targets_of(program) if lowerings.lookup(target) is None}


def _fresh(exported: Exported) -> Any:
    """A program that passes may write into, without a copy of the weights."""
    return exported.program.run_decompositions({})


def _onnx_operators(exported: Exported) -> tuple[tuple[str, ...] | None, str]:
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = torch.onnx.export(exported.program, (), dynamo=True, opset_version=_OPSET, verbose=False)
        nodes = list(graph.model.graph.all_nodes())
        nodes += [node for function in graph.model.functions.values() for node in function.all_nodes()]
    except Exception as error:  # the exporter's own, of many types
        return None, f"torch's ONNX exporter failed ({one_line(error)})"
    return tuple(sorted({qualified(node) for node in nodes})), ""


def _core_operators(exported: Exported) -> tuple[tuple[str, ...] | None, str]:
    """With overloads, as TVM's front end spells them: ``conv2d.default``."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = exported.program.run_decompositions()
    except Exception as error:  # a decomposition that fails
        return None, f"torch's decompositions failed ({one_line(error)})"
    return tuple(sorted({str(target.__name__) for target in targets_of(program)})), ""

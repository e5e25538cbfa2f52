"""The operators of a model: from one ``torch.export``, from TorchScript, from an ONNX file, or from one run."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from convert.cases import Plan, draw
from convert.inspect_records import ControlFlow, Operator
from convert.models.factory import one_line
from convert.models.load import Loaded
from convert.models.scripted import for_export
from convert.records import Kind
from convert.stages.randomness import operator_name
from convert.stages.running import Opened
from convert.targets.onnx_nodes import nodes_of_file, qualified

#: Namespaces of torch's own operators.
_OWN = frozenset({"aten", "prims", "prim", "higher_order", "quantized", "quantized_decomposed"})
#: They carry sizes and checks, or say how memory is held, and compute nothing.
_BOOKKEEPING = re.compile(r"aten\.(_assert_.*|sym_.*|_print|detach_?|alias|lift_fresh(_copy)?)|prims?\..*_sym.*")
#: torch's errors for a branch or a size that depends on values.
_BRANCHING = ("GuardOnDataDependentSymNode", "UserError", "TorchRuntimeError")
_BRANCHES = "its control flow depends on the values of its inputs"
_CALL = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in \S+\n\s*(?P<code>[^\n]*)')


@dataclass(frozen=True)
class Exported:
    """What became of ``torch.export``.

    Attributes:
        program: the program; None where torch gives none.
        module, example: what was exported, for converters that export themselves.
        error: torch's word for why it gives none.
        control_flow: the place, where the reason is a branch or loop on data.
    """

    program: Any = None
    module: Any = None
    example: tuple[Any, ...] = ()
    error: str = ""
    control_flow: ControlFlow | None = None


def export(opened: Opened) -> Exported:
    """Export the source once, with every size at its optimum; a program is taken as it is."""
    import torch

    source, loaded = opened.source, opened.source.loaded
    feeds = draw(Plan("inspect", "draw", {dim.name: dim.opt for dim in opened.dims}, 11), opened.specs, {})
    example = tuple(torch.from_numpy(feeds[spec.name]) for spec in opened.specs)
    try:
        module = for_export(loaded, source.plan, example)
        program = loaded.exported
        if program is None:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                program = torch.export.export(module, example)
    except Exception as error:  # torch's, or the user's own
        flow = find_control_flow(error)
        return Exported(error=_BRANCHES if flow is not None else one_line(error), control_flow=flow)
    finally:
        source.state.restore()
    return Exported(program, module, example)


def find_control_flow(error: BaseException) -> ControlFlow | None:
    """The place in the user's code that ``torch.export`` stumbled over; None where data is not the reason."""
    kind, text = type(error).__name__, str(error)
    if kind not in _BRANCHING or "data-dependent" not in text.lower():
        return None
    _, _, told = text.partition("The following call raised this error")
    found = [match for match in _CALL.finditer(told) if "/site-packages/" not in match["file"]]
    place = found[-1] if found else None
    if place is None:
        return ControlFlow(kind)
    return ControlFlow(kind, place["file"], int(place["line"]), place["code"].strip())


def targets_of(program: Any) -> Iterator[Any]:
    """What every node of a program calls, those in branches and loops included, without mere bookkeeping."""
    import torch

    for part in program.graph_module.modules():
        if isinstance(part, torch.fx.GraphModule):
            for node in part.graph.nodes:
                if node.op == "call_function" and _computes(node.target):
                    yield node.target


def _computes(target: Any) -> bool:
    import torch

    known = torch._ops.OpOverload | torch._ops.OpOverloadPacket | torch._ops.HigherOrderOperator
    return isinstance(target, known) and not _BOOKKEEPING.fullmatch(operator_name(target))


def count_program(program: Any) -> tuple[Operator, ...]:
    """The operators of an exported program, most frequent first."""
    return as_operators(Counter(operator_name(target) for target in targets_of(program)))


def count_script(module: Any) -> tuple[Operator, ...]:
    """The operators of a TorchScript module, methods and branches included, each once however often a loop runs it."""
    import torch

    def walk(block: Any) -> Iterator[str]:
        for node in block.nodes():
            yield node.kind().replace("::", ".")
            for inner in node.blocks():
                yield from walk(inner)

    graph = module.graph.copy()
    torch._C._jit_pass_inline(graph)
    names = (name for name in walk(graph) if not name.startswith("prim."))
    return as_operators(Counter(name for name in names if not _BOOKKEEPING.fullmatch(name)))


def count_onnx(path: str) -> tuple[Operator, ...]:
    """The operators of an ONNX file, most frequent first."""
    counts = Counter(qualified(node) for node in nodes_of_file(path))
    return tuple(Operator(name, count, "." in name) for name, count in counts.most_common())


def count_without_inputs(loaded: Loaded, path: str) -> tuple[tuple[Operator, ...], str]:
    """What can be counted before the inputs are known, and where; nothing for a module that must be traced first."""
    if loaded.kind is Kind.ONNX:
        return count_onnx(path), "ONNX graph"
    if loaded.exported is not None:
        return count_program(loaded.exported), "exported program"
    if loaded.script:
        return count_script(loaded.module), "TorchScript graph"
    return (), ""


def as_operators(counts: Counter[str]) -> tuple[Operator, ...]:
    """Records from counts of torch's operators, most frequent first."""
    items = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Operator(name, count, name.partition(".")[0] not in _OWN) for name, count in items)

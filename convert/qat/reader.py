"""The nodes of an exported graph as steps, in the spelling that the integer runtime has operators for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from convert.errors import InputError
from convert.qat.kinds import KINDS, list_of_operators
from convert.qat.plan import Kind, Ref, Step
from convert.qat.spelling import problem_with, spelled_out

_CHECKS = ("_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range", "sym_constrain_range_for_size")


class Reader:
    """Reads one graph; ``ranks`` has the number of axes of every result afterwards."""

    def __init__(self, graph: Any) -> None:
        """Read ``graph``, as the module of an exported program has it."""
        self._graph = graph
        self._steps: dict[str, Step] = {}
        #: What an in-place operator has changed -> the step that gives its value now.
        self._now: dict[str, str] = {}
        self.ranks: dict[str, int] = {}

    def read(self) -> tuple[list[Step], list[str]]:
        """The steps and the names of those that the graph gives.

        Raises:
            InputError: an operator, input or output cannot be prepared.
        """
        outputs: list[str] = []
        for node in self._graph.nodes:
            if isinstance(node.meta.get("val"), Tensor):
                self.ranks[node.name] = node.meta["val"].dim()
            if node.op == "placeholder":
                if node.name not in self.ranks:
                    raise InputError(f"input {node.name} is no tensor; only models of tensors can be prepared")
                self._add(Step(node.name, Kind.INPUT, node.name))
            elif node.op == "get_attr":
                self._add(Step(node.name, Kind.CONSTANT, node.name, path=str(node.target)))
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                outputs = [self._output(item) for item in node.args[0]]
        return list(self._steps.values()), outputs

    def _output(self, item: Any) -> str:
        name = self._now.get(item.name, item.name) if isinstance(item, torch.fx.Node) else ""
        if not name or self._steps[name].kind in (Kind.NUMBER, Kind.CONSTANT):
            raise InputError(f"the model returns {item}, which does not depend on its inputs; leave that out")
        return name

    def _add(self, step: Step) -> None:
        self._steps[step.name] = step

    def _call(self, node: Any) -> None:
        target = str(node.target) if str(node.target).startswith("aten.") else f"operator.{node.target.__name__}"
        args, kwargs = self._refs(node.args), self._refs(dict(node.kwargs))
        step = Step(node.name, Kind.MOVE, target, tuple(args), kwargs)
        if step.operator in _CHECKS:
            return
        if not isinstance(node.meta.get("val"), Tensor | list | tuple):
            self._add(replace(step, kind=Kind.NUMBER))
            return
        if step.operator.endswith("_"):
            step = replace(step, target=target.replace(f"{step.operator}.", f"{step.operator[:-1]}.", 1))
            before = self._now.get(node.args[0].name, node.args[0].name)
            self._now |= {name: node.name for name, now in self._now.items() if now == before} | {before: node.name}
        for part in spelled_out(step):
            self._add(self._classified(part))

    def _refs(self, value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return Ref(self._now.get(value.name, value.name))
        if isinstance(value, Mapping):
            return {key: self._refs(item) for key, item in value.items()}
        return [self._refs(item) for item in value] if isinstance(value, tuple | list) else value

    def _classified(self, step: Step) -> Step:
        if step.operator == "batch_norm":
            return step
        kind = KINDS.get(step.operator)
        if kind is None:
            raise InputError(
                f"{step.operator} ({step.name}) cannot be prepared for int8 training; what can is {list_of_operators()}"
            )
        constants = {name for name, other in self._steps.items() if other.kind is Kind.CONSTANT}
        problem = problem_with(step, constants)
        if problem:
            raise InputError(f"{step.operator} ({step.name}) cannot be prepared for int8 training {problem}")
        return self._layer(step) if kind is Kind.LAYER else replace(step, kind=kind)

    def _layer(self, step: Step) -> Step:
        """Take weight and bias out of the arguments; they lie at ``path`` from now on."""
        weight = step.args[1]
        path = self._steps[weight.name].path
        bias = step.args[2] if len(step.args) > 2 else step.kwargs.get("bias")
        kwargs = {key: item for key, item in step.kwargs.items() if key != "bias"}
        parts = (path, self._steps[bias.name].path if bias is not None else "")
        return replace(step, kind=Kind.LAYER, args=(step.args[0], *step.args[3:]), kwargs=kwargs, path="|".join(parts))

"""What became of each kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Kernel:
    """One kernel of the module.

    Attributes:
        name: as in the module.
        rule: which rule scheduled it; ``none`` where it stays as TVM made it.
        parameters: of the rule.
        dropped: why the rule's result is not used; empty where it is.
    """

    name: str
    rule: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    dropped: str = ""


@dataclass(frozen=True)
class Report:
    """What became of all kernels; ``problem`` says why the module is TVM's own, where it is."""

    kernels: tuple[Kernel, ...] = ()
    problem: str = ""

    def summary(self, earlier: Sequence[str] = ()) -> dict[str, Any]:
        """As it stands in the manifest: how many kernels each rule has, and which results were dropped, and why.

        Args:
            earlier: why modules with more schedules than this one are not used.
        """
        rules = Counter(kernel.rule for kernel in self.kernels if not kernel.dropped)
        dropped = {one.name: f"{one.rule}: {one.dropped}" for one in self.kernels if one.dropped}
        shown = {"rules": dict(sorted(rules.items())), "dropped": dropped}
        problems = [*(f"not used: {why}" for why in earlier), *([self.problem] if self.problem else [])]
        return shown | ({"problem": "; ".join(problems)} if problems else {})


def first_line(error: Exception) -> str:
    """What the message of an exception says, in short: TVM's go on with the whole program."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next((line for line in lines if line.startswith("Error message:")), lines[0] if lines else "")
    return f"{type(error).__name__}: {told}"[:300]

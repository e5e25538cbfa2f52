"""Which suites there are, on which targets they run, and through which phases an item goes. Imports no toolkit."""

from __future__ import annotations

from dataclasses import dataclass

from convert.targets import load_target


@dataclass(frozen=True)
class Phase:
    """One step of every item: a function ``module:name`` of this package, and the toolchain whose Python runs it."""

    name: str
    function: str
    toolchain: str


@dataclass(frozen=True)
class Suite:
    """One public suite.

    Attributes:
        module: of this package, with ``items()`` and ``prepare(item, folder, target, route)``.
        routes: target -> the one route by which artifacts are built (no second one is tried: what is measured here
            is a converter, not the choice among several).
        samples: target -> how many items are run by default; None for all.
    """

    name: str
    module: str
    routes: dict[str, str]
    samples: dict[str, int | None]

    def phases(self, target: str) -> tuple[Phase, ...]:
        """Run the source and export in the core toolchain, build in the route's, check in the target's own."""
        runtime = load_target(target)
        route = next(route for route in runtime.routes("float32") if route.name == self.routes[target])
        export = (Phase("export", "suites.artifact:export", "core"),) if route.needs == "onnx" else ()
        return (
            Phase("source", f"suites.{self.module}:prepare", "core"),
            *export,
            Phase("build", "suites.artifact:build", route.toolchain),
            Phase("check", "suites.artifact:check", runtime.runtime_toolchain),
        )


SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            "onnx-node",
            "onnx_node",
            {"onnx": "export", "tflite": "onnx2tf", "tvm": "onnx"},
            {"onnx": None, "tflite": 120, "tvm": 120},
        ),
        Suite(
            "torch-modules",
            "torch_modules",
            {"onnx": "export", "tflite": "litert-torch"},
            {"onnx": 100, "tflite": 50},
        ),
        Suite("export-db", "export_db", {"onnx": "export"}, {"onnx": None}),
    )
}

"""What we call of TensorRT exists: held against TensorRT for RTX, which has the same API and is here without a GPU."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path

import pytest
from helpers.command import ROOT, python_of
from helpers.gpu_host import STANDIN

from convert.toolchains import find

pytestmark = [
    pytest.mark.toolkit,
    pytest.mark.skipif(find("trt-rtx") is None, reason="the toolchain trt-rtx is not installed"),
]
ASK = """
import json, sys
import tensorrt_rtx as trt
wanted = json.load(sys.stdin)
lacking = [f"{cls}.{name}" for cls, names in wanted.items() for name in names
           if not hasattr(trt, cls) or not hasattr(getattr(trt, cls), name)]
print(json.dumps(lacking + [name for name in ("nptype", "__version__") if not hasattr(trt, name)]))
"""


def ask(wanted: dict[str, list[str]]) -> list[str]:
    done = subprocess.run(
        [python_of("trt-rtx"), "-c", ASK], input=json.dumps(wanted), capture_output=True, text=True, check=True
    )
    return list(json.loads(done.stdout.splitlines()[-1]))


def names_of(cls: ast.ClassDef) -> list[str]:
    """Public methods, properties, attributes and members of an enumeration."""
    names = []
    for item in cls.body:
        if isinstance(item, ast.FunctionDef):
            names.append(item.name)
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            names.append(item.target.id)
        elif isinstance(item, ast.Assign):
            names += [node.id for target in item.targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    return [name for name in names if not name.startswith("_")]


#: What the stand-in itself needs; nothing of ours calls it.
OWN = {"ICudaEngine": {"is_input"}, "INetworkDefinition": {"model"}}


def test_the_stand_in_offers_nothing_that_does_not_exist() -> None:
    tree = ast.parse((STANDIN / "tensorrt" / "__init__.py").read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    wanted = {cls.name: [name for name in names_of(cls) if name not in OWN.get(cls.name, ())] for cls in classes}
    assert wanted["IExecutionContext"]
    assert wanted["BuilderFlag"]
    assert ask(wanted) == []
    assert ask({"IExecutionContext": ["execute_v99"], "Nothing": ["x"]}) == [
        "IExecutionContext.execute_v99",
        "Nothing.x",
    ]


def attributes_of(module: Path) -> dict[str, list[str]]:
    """Every ``trt.A.B`` and ``trt.A`` that a module says."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Attribute):
            continue
        inner = node.value
        if isinstance(inner, ast.Attribute) and ast.unparse(inner.value) in ("trt", "self._trt"):
            found.setdefault(inner.attr, []).append(node.attr)
        if ast.unparse(inner) in ("trt", "self._trt") and node.attr not in ("nptype", "__version__"):
            found.setdefault(node.attr, [])
    return found


def test_every_constant_that_we_name_exists() -> None:
    modules = sorted((ROOT / "targets" / "trt_host").glob("*.py"))
    wanted: dict[str, list[str]] = {}
    for module in modules:
        for name, more in attributes_of(module).items():
            wanted.setdefault(name, []).extend(more)
    assert {"Builder", "OnnxParser", "Runtime", "BuilderFlag", "TensorIOMode"} <= wanted.keys()
    assert ask({name: [*more, "__name__"] for name, more in wanted.items()}) == []


def test_flags_and_levels_exist() -> None:
    from convert.targets.trt_host.settings import FLAGS, HARDWARE

    assert ask({"BuilderFlag": [*FLAGS.values(), "TF32"], "HardwareCompatibilityLevel": [*HARDWARE.values()]}) == []

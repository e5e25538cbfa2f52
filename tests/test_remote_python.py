"""What travels to the Python of a device or of a sysroot, which may be older than this one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from convert.emulation import OLDEST_PYTHON
from convert.remote.python import _PARTS, PACKAGE

OLDEST = (3, OLDEST_PYTHON)
SENT = sorted({*PACKAGE.glob("*.py"), *(file for part in _PARTS for file in (PACKAGE / part).rglob("*.py"))})
NAMES = [str(file.relative_to(PACKAGE)) for file in SENT]


def too_new(source: str) -> list[str]:
    """Lines that an older Python cannot read; ``feature_version`` alone does not find them all."""
    found = []
    for node in ast.walk(ast.parse(source, feature_version=OLDEST)):
        if getattr(node, "type_params", []) or type(node).__name__ == "TypeAlias":
            found.append(f"line {node.lineno}: type parameters")  # type: ignore[attr-defined]
        if isinstance(node, ast.JoinedStr) and _reuses_its_quotes(source, node):
            found.append(f"line {node.lineno}: an f-string with its own quotes or a line break inside")
    return found


def _reuses_its_quotes(source: str, node: ast.JoinedStr) -> bool:
    """Since 3.12 the braces of an f-string may hold its own quotes, backslashes, line breaks and comments."""
    text = ast.get_source_segment(source, node) or ""
    start = text.lstrip("rRfFbB")
    quotes = start[:3] if start[:3] in ('"""', "'''") else start[:1]
    for value in ast.walk(node):
        if isinstance(value, ast.FormattedValue):
            inside = ast.get_source_segment(source, value.value) or ""
            if quotes in inside or "\\" in inside or (len(quotes) == 1 and "\n" in inside):
                return True
    return False


@pytest.mark.parametrize("file", SENT, ids=NAMES)
def test_it_can_be_read_by_the_oldest_python(file: Path) -> None:
    assert too_new(file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "class X[T]: ...",
        "def f[T](x: T) -> T: ...",
        "type X = int",
        'def f(d):\n    return f"{d["a"]}"',
        "def f(d):\n    return f'{chr(10).join(d) + \"\\n\"}'",
    ],
)
def test_what_is_too_new_is_found(source: str) -> None:
    try:
        found = too_new(source)
    except SyntaxError:  # from a Python that knows by itself
        return
    assert found


def imported(file: Path, *, everywhere: bool) -> set[Path]:
    """The files of this package that ``file`` imports when it is imported, or wherever it does."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nodes = ast.walk(tree) if everywhere else iter(tree.body)  # what is for type checks stands in an ``if``
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "convert":
            below = node.module.split(".")[1:]
            for parts in (below, *([*below, alias.name] for alias in node.names)):
                found |= {PACKAGE.joinpath(*parts).with_suffix(".py")} if parts else set()
                found.add(PACKAGE.joinpath(*parts, "__init__.py"))
    return {file for file in found if file.is_file()}


def test_all_that_opening_an_artifact_imports_is_sent() -> None:
    left = {PACKAGE / "remote/serve.py"} | {PACKAGE / f"targets/{name}.py" for name in ("onnx", "tflite")}
    reached: set[Path] = set()
    while left:
        file = left.pop()
        reached.add(file)
        left |= imported(file, everywhere=file.name == "serve.py") - reached
    assert {PACKAGE / "records.py", PACKAGE / "targets/base.py", PACKAGE / "remote/frames.py"} <= reached
    assert reached <= set(SENT)

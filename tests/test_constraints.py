"""The exact versions of every toolchain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from convert import toolchain_env as env
from convert import toolchains
from convert.toolchains import TOOLCHAINS, Toolchain


def constraint_files() -> list[Path]:
    return sorted((Path(toolchains.__file__).parent / "constraints").glob("*.txt"))


def test_every_toolchain_has_its_constraints() -> None:
    assert {path.stem for path in constraint_files()} == {*TOOLCHAINS, "dev", "arm64-packages"}


@pytest.mark.parametrize("path", constraint_files(), ids=lambda path: path.stem)
def test_constraints_hold_exact_versions_and_nothing_else(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*==[0-9][a-z0-9.]*", line)] == []
    names = [line.partition("==")[0] for line in lines]
    assert names == sorted(set(names))


@pytest.mark.parametrize("toolchain", list(TOOLCHAINS.values()), ids=lambda t: t.name)
def test_all_that_is_asked_for_and_shown_is_pinned(toolchain: Toolchain) -> None:
    wanted = {env.normalise(name.split("[")[0]) for name in (*toolchain.requirements, *toolchain.shown)}
    assert wanted - set(env.pins(toolchain.name)) == set()


@pytest.mark.parametrize("other", ["tvm", "dev"])
def test_versions_agree_where_environments_share_packages(other: str) -> None:
    core, theirs = env.pins("core"), env.pins(other)
    # What tvm does not import together with the packages it borrows from core may differ.
    free = {"typing-extensions"} if other == "tvm" else set()
    differing = {name for name in core.keys() & theirs.keys() if core[name] != theirs[name]}
    assert differing - free == set()


@pytest.mark.parametrize(
    ("toolchain", "shared"),
    [("core", {"ai-edge-litert", "onnxruntime"}), ("tvm", {"apache-tvm", "apache-tvm-ffi"})],
)
def test_artifacts_run_on_arm64_in_the_versions_that_made_them(toolchain: str, shared: set[str]) -> None:
    ours, arm64 = env.pins(toolchain), env.pins("arm64-packages")
    assert {name: arm64[name] for name in shared} == {name: ours[name] for name in shared}

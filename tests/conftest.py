"""Fixtures that several test files share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Where ``helpers`` lies: pytest's import mode puts no folder on the path.
sys.path.insert(0, str(Path(__file__).parent))

from helpers import command, full_run, places, platform_run, sshd
from helpers.arm64_device import write_board
from helpers.background import Background, job_of, uses_background
from helpers.jobs import make_runner

from convert.emulation import find_emulation
from convert.jobs import Limits, Runner
from convert.platforms import host_platform

# CI has no such variable. Where it is set, an interpreter that lacks this project finds it all the same, and a test
# that forgot to give it the source passes there and nowhere else.
os.environ.pop("PYTHONPATH", None)
# For tests that load onnxruntime themselves.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that wait for long work come last: it runs beside the others meanwhile."""
    items.sort(key=uses_background)


@pytest.fixture(scope="session", autouse=True)
def background(request: pytest.FixtureRequest) -> Iterator[Background]:
    """The long work of the chosen tests, begun with the first of all tests."""
    found = Background()
    for item in filter(uses_background, request.session.items):
        found.add(*job_of(item))
    found.begin()
    yield found
    found.stop()


@pytest.fixture(scope="session")
def small_onnx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny ONNX model with a dynamic batch: the source that converts fastest, since nothing loads torch for it."""
    file = tmp_path_factory.mktemp("small") / "small.onnx"
    script = Path(__file__).parent / "helpers" / "make_onnx.py"
    subprocess.run([command.python_of("core"), script, file], check=True)
    return file


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> full_run.FullRun:
    """The digits classifier to all targets and precisions; takes the better part of a minute."""
    return full_run.make(tmp_path_factory.mktemp("digits"))


@pytest.fixture
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd.Sshd]:
    """An arm64 machine, as far as can be seen over ssh."""
    emulation = find_emulation()
    if emulation is None:
        pytest.skip("the toolchain arm64-emulation is not installed")
    forced = write_board(tmp_path_factory.mktemp("board"), emulation, "cortex-a72")
    with sshd.serving(tmp_path_factory.mktemp("server"), {}, forced) as found:
        yield found


@pytest.fixture(scope="session")
def arm64_run(tmp_path_factory: pytest.TempPathFactory) -> platform_run.PlatformRun:
    """The digits classifier for this host and for linux/arm64, emulated; takes a minute or two."""
    platform_run.installed()
    folder, platforms = tmp_path_factory.mktemp("arm64"), f"{host_platform()},linux/arm64"
    return platform_run.make(folder, "onnx,tflite,tvm", platforms, "--bench-seconds", "0.5")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with an empty working folder ``cwd`` and an empty ``temporary`` in it."""
    return places.make_place(tmp_path)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A runner of workers with limits that nothing comes near."""
    return make_runner(tmp_path, Limits(60))

"""onnxruntime's telemetry is off in every process of this project, and leaves no file in the user's folders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers import command

from convert.records import Artifact
from convert.serial import write_json
from convert.toolchain_env import cache_root

pytestmark = pytest.mark.toolkit
#: Where either is set, onnxruntime is silent by itself.
SILENCING = ("ORT_DISABLE_TELEMETRY", "CI", "GITHUB_ACTIONS", "TF_BUILD")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder that has nothing in it, and an environment in which onnxruntime would speak."""
    for name in SILENCING:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("CONVERT_CACHE", str(cache_root()))
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    return folder


def left(home: Path) -> list[str]:
    return [
        str(file.relative_to(home)) for file in home.rglob("*") if "Microsoft" in file.parts or file.suffix == ".ses"
    ]


def test_onnxruntime_would_leave_files(home: Path, small_onnx: Path) -> None:
    code = "import onnxruntime, sys; onnxruntime.InferenceSession(sys.argv[1])"
    subprocess.run([command.python_of("core"), "-c", code, small_onnx], cwd=home, check=True)
    assert left(home)


def test_the_command_leaves_none(home: Path, small_onnx: Path) -> None:
    done = command.run(small_onnx, "--target", "onnx", "--out", "out", cwd=home)
    assert done.code == 0, done.stderr
    assert not left(home)


def test_a_device_keeps_none(home: Path, small_onnx: Path, tmp_path: Path) -> None:
    artifact = Artifact("onnx", "float32", "export", (small_onnx.name,), ())
    write_json(tmp_path / "artifact.json", artifact)
    package = command.ROOT / "convert"
    words: list[str | Path] = [package, "onnx", tmp_path / "artifact.json", small_onnx.parent, "1"]
    serve: list[str | Path] = [sys.executable, package / "remote" / "serve.py", *words]
    done = subprocess.run(serve, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith(b"H")
    assert not left(home)

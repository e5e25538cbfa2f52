"""The command as a user runs it: in a process of its own, from some other folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import convert as package
from convert import toolchains

#: A name for files and folders with everything that careless code trips over.
ODD = 'it\'s a "größe" $(touch x); 名前 & co'
ROOT = Path(package.__file__).resolve().parent.parent
Variables = Mapping[str, str | Path]


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def last_line(self) -> str:
        """The last line on standard error."""
        return self.stderr.splitlines()[-1] if self.stderr else ""


def start(*words: str | Path, cwd: Path, variables: Variables | None = None) -> subprocess.Popen[str]:
    """Start ``convert WORDS`` in ``cwd``, with ``variables`` on top of the environment; its output goes to pipes."""
    environment = importing() | {key: str(value) for key, value in (variables or {}).items()}
    return subprocess.Popen(
        [sys.executable, "-m", "convert", *map(str, words)],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    )


def finish(process: subprocess.Popen[str], seconds: float = 300) -> Done:
    """Wait for a command; one that takes longer than ``seconds`` is killed, and the test fails."""
    try:
        stdout, stderr = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return Done(process.returncode, stdout, stderr)


def run(*words: str | Path, cwd: Path, variables: Variables | None = None) -> Done:
    """Run ``convert WORDS`` to its end."""
    return finish(start(*words, cwd=cwd, variables=variables))


def python_of(toolchain: str) -> Path:
    """The interpreter of ``toolchain``, which must be there."""
    found = toolchains.find(toolchain)
    assert found is not None, f"{toolchain} is missing: make toolchains"
    return found.python


def importing() -> dict[str, str]:
    """The environment in which an interpreter that does not have this project imports it."""
    return os.environ | {"PYTHONPATH": str(ROOT)}


def listing(folder: Path) -> dict[str, bytes]:
    """Every file and folder below ``folder``, hidden or not, with the content of the files."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else b"folder"
        for path in sorted(folder.rglob("*"))
    }

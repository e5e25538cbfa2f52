"""Interpreters that misbehave: programs that stand where a toolchain's Python is looked for."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

#: Start of a script in Python: the job, and how to answer it.
_PRELUDE = """\
import json, os, signal, sys, time
from pathlib import Path
job_file = Path(sys.argv[-1])
job = json.loads(job_file.read_text(encoding="utf-8"))
answer_file = Path(job["answer"])
def answer(**fields):
    answer_file.write_text(json.dumps(fields), encoding="utf-8")
"""


def shell_python(folder: Path, script: str) -> Path:
    """An interpreter that is the shell ``script``, in a folder that looks like a virtual environment.

    ``$4`` is the job file, as a worker gets it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lib/python3.12/site-packages").mkdir(parents=True)
    (folder / "bin").mkdir()
    python = folder / "bin/python"
    python.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    python.chmod(0o755)
    return python


def python_python(folder: Path, code: str) -> Path:
    """An interpreter that runs ``code`` instead of what it is given.

    The code finds ``job`` (the job's fields) and ``answer(**fields)``, which writes the answer.
    """
    script = folder / "code.py"
    folder.mkdir(parents=True, exist_ok=True)
    script.write_text(_PRELUDE + code, encoding="utf-8")
    return shell_python(folder, f'exec {shlex.quote(sys.executable)} -I {shlex.quote(str(script))} "$@"')


def staged_python(folder: Path, real: Path, faults: dict[str, str]) -> Path:
    """An interpreter that is ``real`` but for some jobs.

    Args:
        folder: where it is put.
        real: what does all other jobs.
        faults: text in the job file -> shell script that is run instead.
    """
    tests = "\n".join(f'if grep -qF {shlex.quote(text)} "$4"; then\n{script}\nfi' for text, script in faults.items())
    return shell_python(folder, f'{tests}\nexec {shlex.quote(str(real))} "$@"')

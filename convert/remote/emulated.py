"""qemu-user as a place: programs for another CPU run in processes of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from convert.emulation import Emulation
from convert.remote.android import NAMES, library
from convert.remote.place import Place, Program


class Emulated(Place):
    """qemu-user with one CPU model, and a sysroot that holds the libraries and a Python."""

    def __init__(self, emulation: Emulation, platform: str, stand_in: str) -> None:
        """``stand_in`` is qemu's name of the CPU."""
        self.name = f"emulation of {stand_in.partition(',')[0]}"
        self.platform = platform
        self._emulation = emulation
        self._cpu = stand_in
        self._folder = Path(tempfile.mkdtemp(prefix="emulated-"))

    def start(self, program: Program) -> subprocess.Popen[bytes]:
        """See :meth:`Place.start`; the files are linked, not copied."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        for name, source in program.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(source)
        env = {key: value.replace("{folder}", str(folder)) for key, value in program.env.items()}
        env["LD_LIBRARY_PATH"] = f"{folder}:{self._with_android_names(folder)}"
        words = [word.replace("{folder}", str(folder)) for word in program.words]
        if words[0] == "{python}":
            env["PYTHONPATH"] = str(self._emulation.packages)
            command = self._emulation.python_command(*words[1:], cpu=self._cpu, env=env)
        else:
            command = self._emulation.command(folder / words[0], *words[1:], cpu=self._cpu, env=env)
        return subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_clean_environment()
        )

    def _with_android_names(self, folder: Path) -> Path:
        names = folder / "android"
        names.mkdir()
        for theirs, ours in NAMES.items():
            (names / theirs).symlink_to(library(self._emulation.sysroot, ours))
        return names

    def close(self) -> None:
        """See :meth:`Place.close`."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _clean_environment() -> dict[str, str]:
    """Without what would bring this machine's libraries and packages into the emulated process."""
    unwanted = ("LD_", "PYTHON", "QEMU_")
    return {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}

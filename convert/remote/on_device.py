"""A device as a place: programs are copied to a folder of their own there, and nothing of them stays.

What is copied travels as one archive through the shell of the device, and the feeds through the program's own standard
input; so one way serves ssh and adb. The folder is removed by the shell that runs the program, also when the line is
lost, since the program ends with its input.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import IO

from convert.errors import InputError, StageError
from convert.remote import frames
from convert.remote.android import adapted
from convert.remote.devices import Transport, asked
from convert.remote.place import Place, Program, signal_words

_COPY_SECONDS = 600.0
_DONE = ".complete"
_SHELL_SIGNAL = 128
_UPLOAD = """
umask 077
folder=$(mktemp -d "{scratch}/convert-XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" && tar xf - && [ -e {done} ] || {{ echo "the files did not arrive whole" >&2; exit 1; }}
trap - EXIT
echo "$folder" || rm -rf "$folder"
"""
#: Answers in the place of a Python that is missing.
_NEED_PYTHON = "command -v python3 >/dev/null || {{ printf '{complaint}'; exit 2; }}"
_NO_PYTHON = "it has no python3, which opens the artifact there; install Python 3.11 or newer on it"
_RUN = """
folder={folder}
cd "$folder" || exit 1
trap 'rm -rf "$folder"' EXIT
{first}
{env} {words}
"""


class OnDevice(Place):
    """One device, over its transport."""

    def __init__(self, transport: Transport, platform: str) -> None:
        """``platform`` is what the device said that it is."""
        self.name = transport.name
        self.platform = platform
        self._transport = transport
        self._folders: list[str] = []

    def start(self, program: Program) -> subprocess.Popen[bytes]:
        """See :meth:`Place.start`."""
        if self.platform.startswith("android/"):
            program = adapted(program)
        folder = self._upload(program)
        # Runtimes leave files of their own where temporary ones go (onnxruntime does), which must go with the folder.
        values = {"LD_LIBRARY_PATH": "{folder}", "TMPDIR": "{folder}", **program.env}
        env = " ".join(f"{key}={self._quoted(value, folder)}" for key, value in values.items())
        words = ["python3" if word == "{python}" else word for word in program.words]
        first = _NEED_PYTHON.format(complaint=_escaped(frames.complaint(_NO_PYTHON))) if words[0] == "python3" else ""
        if words[0] in program.files:
            words[0] = f"./{words[0]}"
        line = " ".join(self._quoted(word, folder) for word in words)
        script = _RUN.format(folder=shlex.quote(folder), first=first, env=env, words=line)
        pipe = subprocess.PIPE
        return subprocess.Popen(self._transport.command(script), stdin=pipe, stdout=pipe, stderr=pipe)

    @staticmethod
    def _quoted(text: str, folder: str) -> str:
        return shlex.quote(text.replace("{folder}", folder))

    def _upload(self, program: Program) -> str:
        with tempfile.TemporaryFile() as archive:
            pack(program, archive)
            archive.seek(0)
            script = _UPLOAD.format(scratch=self._transport.scratch, done=_DONE)
            try:
                answer = asked(self._transport, script, archive, _COPY_SECONDS).strip().splitlines()
            except InputError as error:
                raise StageError(f"the artifact could not be copied: {error}") from error
        if not answer or not answer[-1].startswith("/"):
            raise StageError(f"{self.name}: the artifact was copied, but the device did not say where to")
        self._folders.append(answer[-1])
        return answer[-1]

    def ended(self, code: int) -> str:
        """See :meth:`Place.ended`; a shell gives 128 and the signal."""
        known = {int(one) for one in signal.Signals}
        if code - _SHELL_SIGNAL in known:
            return f"ended by {signal_words(code - _SHELL_SIGNAL)}"
        return self._transport.ended(code)

    def close(self) -> None:
        """Remove what a program that was never started, or whose shell was killed, has left."""
        for folder in self._folders:
            with contextlib.suppress(InputError, OSError):
                asked(self._transport, f"rm -rf {shlex.quote(folder)}")
        self._folders.clear()


def _escaped(data: bytes) -> str:
    """For ``printf`` of any shell, which takes bytes by their octal digits."""
    return "".join(f"\\{byte:03o}" for byte in data)


def pack(program: Program, archive: IO[bytes]) -> None:
    """Write the files of ``program`` as a tar, and last an empty one that says that it is whole."""
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, source in program.files.items():
            for below, path in _files(name, source):
                tar.add(path.resolve(), below, recursive=False, filter=_plain)
        tar.addfile(tarfile.TarInfo(_DONE))


def _files(name: str, source: Path) -> list[tuple[str, Path]]:
    if not source.is_dir():
        return [(name, source)]
    # Links are followed: this package's own sub-packages are links in a checkout.
    found = [
        (folder / file).relative_to(source) for folder, _, files in source.walk(follow_symlinks=True) for file in files
    ]
    return [(f"{name}/{path.as_posix()}", source / path) for path in sorted(found) if path.suffix == ".py"]


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without the names of users here, and readable there whatever the mask was here."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode = 0o700
    return info

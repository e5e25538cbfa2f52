"""An artifact held by the Python of another place: this package travels along and opens it there."""

from __future__ import annotations

import tempfile
from pathlib import Path

import convert
from convert.records import Artifact
from convert.remote.place import Place, Program
from convert.remote.session import RemoteSession
from convert.serial import write_json

PACKAGE = Path(convert.__file__).resolve().parent
#: What opening an artifact needs of this package: its modules, those of the targets and those that carry the frames.
_PARTS = ("remote", "targets", "quantize")


def serve_in(place: Place, artifact: Artifact, folder: Path, threads: int) -> RemoteSession:
    """Start ``convert/remote/serve.py`` in ``place`` with ``artifact``, whose files are in ``folder``.

    Raises:
        StageError: it does not load there.
    """
    with tempfile.TemporaryDirectory(prefix="record-") as scratch:
        record = Path(scratch) / "artifact.json"
        write_json(record, artifact)
        files = {f"artifact/{name}": folder / name for name in artifact.files}
        files |= {"artifact.json": record}
        files |= {f"convert/{path.name}": path for path in PACKAGE.glob("*.py")}
        files |= {f"convert/{part}": PACKAGE / part for part in _PARTS}
        words = ("{python}", "convert/remote/serve.py", "convert", artifact.target, "artifact.json", "artifact")
        # The program has read the record once it has loaded, and only then this returns.
        return RemoteSession(place, Program(files, (*words, str(threads))), artifact)

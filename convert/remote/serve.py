"""The other end in Python: holds one artifact on the machine it is proven on, and answers over its standard streams.

Run as a file by the Python of a device or of a sysroot, 3.11 or newer, with this package's folder beside it:

    python serve.py PACKAGE TARGET ARTIFACT.json FOLDER THREADS

The artifact is opened by the very session that opens it here; only what carries the frames differs.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import struct
import sys
import time
from pathlib import Path
from typing import IO, Any

OLDEST = (3, 11)
#: What must be installed to open an artifact of a target.
RUNTIMES = {"onnx": "numpy and onnxruntime", "tflite": "numpy and ai-edge-litert"}


class Unfit(Exception):
    """This Python cannot open artifacts."""


def main(package: str, target: str, artifact_file: str, folder: str, threads: str) -> int:
    """Serve until the other side closes the line; gives the exit status."""
    # Whatever a toolkit prints must not come between the frames.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # As in the workers of this project's own machine: onnxruntime sends names and hashes of models, and leaves files.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        _require_python()
        _load_package(Path(package))
        run = _open(target, artifact_file, folder, int(threads))
        _serve(run, sys.stdin.buffer, answers)
    except Exception as error:  # whatever it is, the other side must hear of it
        text = " ".join(_why(error, target).split()).encode()[:4000]
        # As convert.remote.frames writes it, which cannot be imported where numpy is missing.
        answers.write(b"E" + struct.pack("<I", len(text)) + text)
        answers.flush()
        return 2
    return 0


def _require_python() -> None:
    if sys.version_info < OLDEST:
        found, oldest = (".".join(map(str, version[:2])) for version in (sys.version_info, OLDEST))
        raise Unfit(f"its python3 is Python {found}, and opening the artifact there needs {oldest} or newer")


def _why(error: Exception, target: str) -> str:
    if isinstance(error, Unfit):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] != "convert":
        return f"its python3 lacks {error.name}; install {RUNTIMES.get(target, error.name)} for it there"
    return f"{type(error).__name__}: {error}"


def _load_package(folder: Path) -> None:
    spec = importlib.util.spec_from_file_location(
        "convert", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise SystemExit(f"the package at {folder} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules["convert"] = module
    spec.loader.exec_module(module)


def _open(target: str, artifact_file: str, folder: str, threads: int) -> Any:
    """A function from feeds, in the order of the source's inputs, to outputs in the order of its outputs."""
    from convert.records import Artifact
    from convert.serial import read_json
    from convert.targets import load_target

    artifact = read_json(Artifact, Path(artifact_file))
    session = load_target(target).open(artifact, Path(folder), threads)
    inputs = [entry.source for entry in artifact.io if entry.role == "input"]
    outputs = [entry.source for entry in artifact.io if entry.role == "output"]

    def run(feeds: list[Any]) -> list[Any]:
        found = session.run(dict(zip(inputs, feeds, strict=True)))
        return [found[name] for name in outputs]

    return run


def _serve(run: Any, requests: IO[bytes], answers: IO[bytes]) -> None:
    from convert.remote import frames

    answers.write(b"H" + struct.pack("<I", frames.VERSION))
    answers.flush()
    feeds: list[Any] = []
    while letter := requests.read(1):
        if letter == b"R":
            feeds = frames.read_tensors(requests)
            found = run(feeds)
            answers.write(b"K")
            frames.write_tensors(answers, found)
        elif letter == b"T":
            (runs,) = struct.unpack("<I", frames.read_exactly(requests, 4))
            times = [_timed(run, feeds) for _ in range(runs)]
            answers.write(b"T" + struct.pack(f"<I{runs}d", runs, *times))
        elif letter == b"M":
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
            answers.write(b"M" + struct.pack("<Q", peak))
        else:
            raise frames.Broken(f"{letter!r} is no request")
        answers.flush()


def _timed(run: Any, feeds: list[Any]) -> float:
    start = time.perf_counter()
    run(feeds)
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Run an artifact of tvm by its own session. Run by the Python of that toolchain: ``tvm_session.py FOLDER CASES.npz``.

``CASES.npz`` holds feeds as ``CASE/INPUT``. Prints, as JSON, case -> sum of every output per row and its shape, or the
message of the refusal.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from convert.errors import StageError
from convert.records import Artifact
from convert.serial import from_plain
from convert.targets import load_target


def main(folder: Path, cases: Path) -> dict[str, Any]:
    """Run every case."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    artifact = from_plain(Artifact, {key: manifest[key] for key in ("target", "precision", "route", "files", "io")}
                          | {"settings": manifest["settings"]})  # fmt: skip
    session = load_target("tvm").open(artifact, folder, 1)
    told: dict[str, Any] = {}
    with np.load(cases) as stored:
        for case in sorted({name.split("/")[0] for name in stored.files}):
            feeds = {name.split("/")[1]: stored[name] for name in stored.files if name.startswith(f"{case}/")}
            try:
                told[case] = {name: value.tolist() for name, value in session.run(feeds).items()}
            except StageError as refused:
                told[case] = str(refused)
    return told


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))))

"""One run of everything, which many tests look at: the digits classifier to all targets, in folders with odd names."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import convert.models
from convert.records import Artifact, Outcome, Report
from convert.serial import from_plain, read_json
from helpers import command
from helpers.command import ODD

DIGITS = Path(convert.models.__file__).parent / "digits"
TARGETS = ("onnx", "tflite", "tvm", "trt")
#: What passes on every host.
PASSED = (("onnx", "float32"), ("onnx", "float16"), ("tflite", "float32"), ("tflite", "float16"), ("tvm", "float32"))
HAS_GPU = Path("/dev/nvidiactl").exists()


@dataclass
class FullRun:
    """A run that has ended.

    Attributes:
        folders: ``cwd``, ``input``, ``temporary`` and ``out``'s parent, by these names.
        before: listings of the first three before the run.
    """

    done: command.Done
    folders: dict[str, Path]
    before: dict[str, dict[str, bytes]]
    out: Path

    @cached_property
    def report(self) -> Report:
        """The report, as the records that it is made of."""
        return read_json(Report, self.out / "report.json")

    @cached_property
    def plain(self) -> Any:
        """The report, as it stands in the file."""
        return json.loads((self.out / "report.json").read_text(encoding="utf-8"))

    def outcome(self, target: str, precision: str) -> Outcome:
        """The one outcome of ``target`` at ``precision``."""
        (found,) = (one for one in self.report.artifacts if (one.target, one.precision) == (target, precision))
        return found

    def artifact(self, target: str, precision: str) -> Artifact:
        """What the manifest says of an artifact."""
        manifest = json.loads((self.out / target / precision / "manifest.json").read_text(encoding="utf-8"))
        names = ("target", "precision", "route", "files", "io", "platform", "notes", "versions", "settings")
        return from_plain(Artifact, {name: manifest[name] for name in names})


def make(place: Path) -> FullRun:
    """Run ``convert`` on the digits classifier, everything in odd folders below ``place``."""
    folders = {name: place / ODD / name for name in ("cwd", "input", "temporary", "results")}
    for folder in folders.values():
        folder.mkdir(parents=True)
    model = Path(shutil.copy(DIGITS / "digits.pt2", folders["input"] / f"model {ODD}.pt2"))
    samples = Path(shutil.copy(DIGITS / "samples.npz", folders["input"] / f"samples {ODD}.npz"))
    before = {name: command.listing(folders[name]) for name in ("cwd", "input", "temporary")}
    out = folders["results"] / "not there yet" / f"out {ODD}"
    folders["cwd"].chmod(0o555)
    folders["input"].chmod(0o555)
    words: list[str | Path] = [
        model,
        "--samples",
        samples,
        "--target",
        ",".join(TARGETS),
        "--precision",
        "float32,float16",
    ]
    words += ["--precision", "float32,float16", "--bench-seconds", "0.5", "--out", out]
    done = command.run(*words, cwd=folders["cwd"], variables={"TMPDIR": folders["temporary"]})
    for name in ("cwd", "input"):
        folders[name].chmod(0o755)  # else the temporary folder cannot be removed later
    return FullRun(done, folders, before, out)

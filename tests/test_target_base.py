"""What ``Target.build`` verifies, whatever a back end says."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from convert.errors import StageError
from convert.platforms import host_platform
from convert.records import Artifact, Golden, InputSpec, IoEntry, Kind, OutputSpec
from convert.targets.base import BuildRequest, Route, Session, Target, Tolerance

IO = tuple(
    IoEntry(name, role, f"{name}:0", "float32", (2,))
    for name, role in (("a", "input"), ("b", "input"), ("y", "output"), ("z", "output"))
)
GOLDEN = Golden(
    Kind.EXPORTED,
    "m",
    1,
    4,
    (InputSpec("a", "float32", (2,)), InputSpec("b", "float32", (2,))),
    (),
    (OutputSpec("y", "float32", (2,)), OutputSpec("z", "float32", (2,))),
    (),
    "float64",
)
RIGHT = Artifact("fake", "float32", "compiler", ("model.bin", "data/weights.bin"), IO)


class Fake(Target):
    """Leaves the files and the record that a test asks for."""

    name: ClassVar[str] = "fake"
    summary: ClassVar[str] = "a target for tests"
    precisions: ClassVar[tuple[str, ...]] = ("float32",)
    max_opset: ClassVar[int] = 20
    runtime_toolchain: ClassVar[str] = "core"
    distributions: ClassVar[tuple[str, ...]] = ()
    tolerance: ClassVar[Tolerance] = Tolerance(1.0, "exact")

    def __init__(self, files: dict[str, bytes], artifact: Artifact) -> None:
        self.files = files
        self.artifact = artifact

    def routes(self, precision: str) -> tuple[Route, ...]:
        return (Route("compiler", "core"),)

    def _build(self, request: BuildRequest) -> Artifact:
        for name, content in self.files.items():
            (request.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (request.folder / name).write_bytes(content)
        return self.artifact

    def open(self, artifact: Artifact, folder: Path, threads: int) -> Session:
        raise NotImplementedError


FILES = {"model.bin": b"1", "data/weights.bin": b"2", "spare.txt": b""}
Build = Callable[[dict[str, bytes], Artifact], Artifact]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Build a fake target in a fresh folder."""

    def call(files: dict[str, bytes], artifact: Artifact) -> Artifact:
        request = BuildRequest("fake", "float32", "compiler", GOLDEN, tmp_path, tmp_path / "artifact", tmp_path)
        request.folder.mkdir()
        return Fake(files, artifact).build(request)

    return call


def test_a_whole_artifact_is_handed_on(build: Build) -> None:
    assert build(FILES, RIGHT) is RIGHT


@pytest.mark.parametrize(
    ("files", "lost"),
    [
        ({}, "model.bin"),
        (FILES | {"model.bin": b""}, "model.bin"),
        (FILES | {"data/weights.bin": b""}, "data/weights.bin"),
        ({"model.bin": b"1"}, "data/weights.bin"),
        ({"model.bin/inside": b"1", "data/weights.bin": b"2"}, "model.bin"),
    ],
)
def test_a_file_that_is_missing_or_empty_is_an_error(build: Build, files: dict[str, bytes], lost: str) -> None:
    with pytest.raises(StageError) as caught:
        build(files, RIGHT)
    assert caught.value.reason == f"compiler said it was done but left no {lost}"


def test_an_artifact_without_any_file_is_an_error(build: Build) -> None:
    with pytest.raises(StageError, match="compiler"):
        build({}, replace(RIGHT, files=()))


@pytest.mark.parametrize(
    ("kept", "reason"),
    [
        ("byz", "the artifact lost input a of the source"),
        ("yz", "the artifact lost input a, b of the source"),
        ("aby", "the artifact lost output z of the source"),
        ("ab", "the artifact lost output y, z of the source"),
        ("", "the artifact lost input a, b of the source"),
    ],
)
def test_a_lost_input_or_output_is_an_error(build: Build, kept: str, reason: str) -> None:
    with pytest.raises(StageError) as caught:
        build(FILES, replace(RIGHT, io=tuple(entry for entry in IO if entry.source in kept)))
    assert caught.value.reason == reason


def test_an_input_does_not_stand_for_an_output(build: Build) -> None:
    swapped = (*IO[:3], replace(IO[3], role="input"))
    with pytest.raises(StageError, match="lost output z"):
        build(FILES, replace(RIGHT, io=swapped))


def test_interface_goes_by_the_names_of_the_source(build: Build) -> None:
    renamed = (*IO[:3], replace(IO[3], source="z:0", name="z"))
    with pytest.raises(StageError, match="lost output z of the source"):
        build(FILES, replace(RIGHT, io=renamed))


def test_what_a_target_has_when_it_says_nothing() -> None:
    fake = Fake({}, RIGHT)
    assert (fake.base_precision("float32"), fake.missing(), fake.probe()) == (None, "", "")
    assert (fake.device, fake.gate_toolchain) == ("", "")
    with pytest.raises(StageError) as caught:
        fake.deferred_route()
    assert caught.value.reason == "fake cannot be deferred to another host"
    assert (Route("r", "core").needs, Route("r", "core").borrows) == ("onnx", None)


@pytest.mark.parametrize(
    ("system", "machine", "name"),
    [
        ("Linux", "x86_64", "linux/amd64"),
        ("Linux", "aarch64", "linux/arm64"),
        ("Darwin", "arm64", "darwin/arm64"),
        ("Linux", "riscv64", "linux/riscv64"),
    ],
)
def test_host_platform(monkeypatch: pytest.MonkeyPatch, system: str, machine: str, name: str) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert host_platform() == name

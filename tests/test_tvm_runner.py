"""The program that holds a TVM module elsewhere: how it is made and kept, and what it does with broken frames."""

from __future__ import annotations

import io
import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import tvm_module
from helpers.arm64 import write_program

from convert import toolchains
from convert.errors import StageError
from convert.platforms import host_platform
from convert.remote import frames
from convert.targets import tvm_link, tvm_runner
from convert.targets.tvm_runner import LIBRARIES, NAME, libraries_for, runner_for

WRITES = '#!/bin/sh\necho run >> "$0.runs"\nwhile [ "$1" != -o ]; do shift; done\necho program > "$2"\n'
FAILS = '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho half > "$2"\necho "error: no room" >&2\nexit 1\n'


@dataclass
class Maker:
    """A compiler that writes a line where the program should be, and all that it is asked with."""

    folder: Path

    def runner(self, platform: str = "linux/arm64", zig: tuple[str, ...] = ("zig",)) -> Path:
        libraries = {name: self.folder / name for name in LIBRARIES}
        return runner_for(platform, self.folder / "include", libraries, zig, self.folder / "cache")

    @property
    def runs(self) -> int:
        return len((self.folder / "programs/zig.runs").read_text(encoding="utf-8").split())

    def kept(self) -> list[Path]:
        return sorted(path for path in (self.folder / "cache").rglob("*") if path.is_file())


@pytest.fixture
def maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maker:
    header = tmp_path / "include/tvm/ffi/c_api.h"
    header.parent.mkdir(parents=True)
    header.write_text("// version 1\n", encoding="utf-8")
    source = tmp_path / "tvm_runner.c"
    source.write_text("int main(void) { return 0; }\n", encoding="utf-8")
    monkeypatch.setattr(tvm_runner, "SOURCE", source)
    monkeypatch.setattr(tvm_link, "host_platform", lambda: "linux/amd64")
    write_program(tmp_path / "programs", "zig", WRITES)
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:/usr/bin:/bin")
    # Whatever cross compilers this machine has, zig is to be asked.
    monkeypatch.setattr(shutil, "which", lambda _: None)
    return Maker(tmp_path)


def test_sorting_needs_one_library_more(tmp_path: Path) -> None:
    (tmp_path / "plain.so").write_bytes(b"\x7fELF vm.builtin.match_shape")
    (tmp_path / "sorts.so").write_bytes(b"\x7fELF .tvm_func.tvm.contrib.sort.topk")
    assert libraries_for([tmp_path / "plain.so"]) == LIBRARIES
    assert libraries_for([tmp_path / "plain.so", tmp_path / "sorts.so"]) == (*LIBRARIES, "libtvm_runtime_extra.so")


def test_it_is_compiled_once(maker: Maker) -> None:
    first = maker.runner()
    assert first.read_text(encoding="utf-8") == "program\n"
    assert maker.runner() == first
    assert (maker.runs, maker.kept()) == (1, [first])
    assert first.name.startswith(f"{NAME}-")


def test_android_takes_the_one_for_linux(maker: Maker) -> None:
    assert maker.runner("android/arm64") == maker.runner("linux/arm64")
    assert maker.runs == 1


def test_every_platform_source_header_and_compiler_has_its_own(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {maker.runner(), maker.runner("linux/riscv64")}
    tvm_runner.SOURCE.write_text("int main(void) { return 1; }\n", encoding="utf-8")
    found.add(maker.runner())
    (maker.folder / "include/tvm/ffi/c_api.h").write_text("// version 2\n", encoding="utf-8")
    found.add(maker.runner())
    write_program(maker.folder / "programs", "aarch64-linux-gnu-g++", WRITES)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    found.add(maker.runner())
    assert len(found) == 5
    linker, headers = tvm_link.Linker(("cc",), "cc"), maker.folder / "include"
    assert tvm_runner._key("linux/arm64", linker, headers) != tvm_runner._key("linux/riscv64", linker, headers)
    assert maker.kept() == sorted(found)


def test_a_compiler_that_fails_leaves_nothing(maker: Maker) -> None:
    write_program(maker.folder / "programs", "zig", FAILS)
    with pytest.raises(StageError, match=r"^zig cc -target aarch64-linux-gnu.2.28 cannot link for .*error: no room$"):
        maker.runner()
    assert list((maker.folder / "cache").iterdir()) == []


def test_without_a_compiler_it_says_what_to_install(maker: Maker) -> None:
    with pytest.raises(StageError, match=r"^running a TVM module elsewhere needs a cross compiler for linux/arm64 "):
        maker.runner(zig=())
    assert not (maker.folder / "cache").exists()


# The real one, for this host, with a module of its own.


@dataclass(frozen=True)
class Native:
    """A folder with the program, the libraries and the module ``y = tanh(x w + b)`` for float32[N,8]."""

    folder: Path

    def answers(self, *requests: bytes, file: str = "model.so") -> tuple[int, list[tuple[str, Any]]]:
        """The exit code, and every answer to ``requests``."""
        done = subprocess.run(
            [self.folder / NAME, file], cwd=self.folder, input=b"".join(requests), capture_output=True, timeout=120,
            check=False, env=os.environ | {"LD_LIBRARY_PATH": str(self.folder)},
        )  # fmt: skip
        line, found = io.BytesIO(done.stdout), []
        while line.tell() < len(done.stdout):
            found.append(frames.read_answer(line))
        return done.returncode, found


@pytest.fixture(scope="module")
def native(small_onnx: Path, tmp_path_factory: pytest.TempPathFactory) -> Native:
    toolchain = toolchains.find("tvm")
    if toolchain is None:
        pytest.skip("the toolchain tvm is not installed: convert toolchain install tvm")
    folder = tmp_path_factory.mktemp("native")
    tvm_module.build(small_onnx, folder / "model.so", host_platform())
    packages = toolchain.site_packages
    libraries = {"libtvm_runtime.so": packages / "tvm/lib", "libtvm_ffi.so": packages / "tvm_ffi/lib"}
    libraries = {name: place / name for name, place in libraries.items()}
    made = runner_for(host_platform(), packages / "tvm_ffi/include", libraries, (), folder / "cache")
    for name, source in {NAME: made, **libraries}.items():
        (folder / name).symlink_to(source)
    return Native(folder)


def run_frame(*arrays: np.ndarray[Any, Any]) -> bytes:
    line = io.BytesIO()
    frames.write_run(line, arrays)
    return line.getvalue()


def tensor(axes: int, code: int, bits: int, *sizes: int, data: bytes = b"") -> bytes:
    """A request to run with one tensor, written as the bytes say."""
    return b"R" + struct.pack(f"<IIBB{len(sizes)}q", 1, axes, code, bits, *sizes) + data


X = np.arange(24, dtype=np.float32).reshape(3, 8) / 24
RUN, TIME, MEMORY = run_frame(X), b"T" + struct.pack("<I", 3), b"M"


@pytest.mark.toolkit
def test_it_runs_times_and_tells_its_memory(native: Native) -> None:
    code, answers = native.answers(RUN, TIME, MEMORY, RUN)
    assert code == 0
    assert [letter for letter, _ in answers] == ["H", "K", "T", "M", "K"]
    assert answers[0] == ("H", frames.VERSION)
    (first,), (again,) = answers[1][1], answers[4][1]
    assert first.shape == (3, 4)
    assert np.array_equal(first, again)
    assert len(answers[2][1]) == 3
    assert min(answers[2][1]) > 0
    assert answers[3][1] > 1 << 20


@pytest.mark.toolkit
def test_without_a_request_it_ends_well(native: Native) -> None:
    assert native.answers() == (0, [("H", frames.VERSION)])


FLOAT = (2, 32)
HUGE = 1 << 60


@pytest.mark.toolkit
@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (b"X", "an unknown request"),
        (b"\0", "an unknown request"),
        (b"R" + struct.pack("<I", 1 << 31), "there are too many tensors"),
        (tensor(65, *FLOAT), "a tensor has too many axes"),
        (tensor(1, 9, 32, 1, data=bytes(4)), "a tensor has a dtype that is not known"),
        (tensor(1, 5, 64, 1, data=bytes(8)), "a tensor has a dtype that is not known"),  # complex
        (tensor(1, 2, 0, 8), "a tensor has a dtype that is not known"),
        (tensor(1, 2, 12, 8), "a tensor has a dtype that is not known"),
        (tensor(2, *FLOAT, -1, 8), "a tensor has impossible sizes"),
        (tensor(2, *FLOAT, 1 << 40, 1 << 40), "a tensor has impossible sizes"),
        (tensor(2, *FLOAT, 1 << 32, 1 << 32), "a tensor has impossible sizes"),  # 2^64 is 0
        (tensor(2, *FLOAT, 1 << 59, 8), "a tensor has impossible sizes"),  # 2^62 floats are 2^64 bytes
        (tensor(1, *FLOAT, HUGE), "a tensor has impossible sizes"),
        (tensor(1, *FLOAT, 1 << 57), "there is no memory for a tensor"),
        (b"T" + struct.pack("<I", 0xFFFFFFFF), "there are too many runs"),
    ],
    ids=lambda part: part.hex()[:60] if isinstance(part, bytes) else "",
)  # fmt: skip
def test_a_broken_frame_is_one_sentence(native: Native, request_: bytes, why: str) -> None:
    """What follows the frame must not be taken for another request."""
    assert native.answers(request_, RUN) == (2, [("H", frames.VERSION), ("E", why)])
    code, answers = native.answers(RUN, request_)  # nor does it matter what was run before
    assert (code, [letter for letter, _ in answers], answers[-1]) == (2, ["H", "K", "E"], ("E", why))


@pytest.mark.toolkit
def test_a_frame_that_ends_anywhere_is_one_sentence(native: Native) -> None:
    for size in (1, 4, 5, 8, 9, 10, 11, 18, 27, 60, len(RUN) - 1):
        assert native.answers(RUN[:size]) == (
            2, [("H", frames.VERSION), ("E", "the input ended in the middle of a frame")],
        )  # fmt: skip
    assert native.answers(TIME[:3])[1][1:] == [("E", "the input ended in the middle of a frame")]


@pytest.mark.toolkit
@pytest.mark.parametrize(
    "request_",
    [
        run_frame(),
        run_frame(X, X),
        run_frame(X[:, :7].copy()),
        run_frame(X[0]),
        run_frame(X.astype(np.float64)),
        run_frame(np.array(1.0, np.float32)),
        TIME,  # there was no run whose feeds could be used
    ],
    ids=["none", "two", "narrow", "flat", "float64", "scalar", "no feeds"],
)
def test_feeds_that_the_module_does_not_take(native: Native, request_: bytes) -> None:
    code, answers = native.answers(request_)
    assert (code, [letter for letter, _ in answers]) == (2, ["H", "E"])
    assert answers[1][1]


@pytest.mark.toolkit
@pytest.mark.parametrize(("file", "data"), [("gone.so", None), ("text.so", b"no library"), ("empty.so", b"")])
def test_what_cannot_be_loaded_is_said(native: Native, file: str, data: bytes | None) -> None:
    if data is not None:
        (native.folder / file).write_bytes(data)
    code, answers = native.answers(RUN, file=file)
    assert (code, [letter for letter, _ in answers]) == (2, ["E"])
    assert file in answers[0][1]

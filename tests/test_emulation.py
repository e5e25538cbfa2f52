"""Running arm64 programs: the commands, what is looked at, and the real thing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from helpers.arm64 import ARM64, X86_64, write_program, write_sysroot

from convert import emulation, toolchains
from convert.emulation import Emulation, find_emulation, of_environment, sysroot_problem, sysroot_pythons
from convert.errors import InputError
from convert.toolchains import Environment

MADE = Emulation(
    folder=Path("/e"),
    qemu=Path("/e/qemu"),
    sysroot=Path("/e/sysroot"),
    python=Path("/e/sysroot/python"),
    packages=Path("/e/packages"),
    zig=("/e/bin/python", "-m", "ziglang"),
)


def write_folder(folder: Path) -> Path:
    """A whole environment, but for what is in its packages."""
    write_sysroot(folder / "sysroot")
    (folder / "packages").mkdir()
    (folder / "qemu/usr/bin").mkdir(parents=True)
    write_program(folder / "qemu/usr/bin", "qemu-aarch64-static")
    (folder / "lib/python3.12/site-packages").mkdir(parents=True)
    write_program(folder / "bin", "python")
    return folder


def environment_of(folder: Path) -> Environment:
    return Environment(emulation.NAME, folder / "bin/python", folder / "lib", "cache", {})


def test_a_command_names_the_emulator_and_the_sysroot() -> None:
    assert MADE.command("/p", "-x", "y z") == ["/e/qemu", "-cpu", "max", "-L", "/e/sysroot", "/p", "-x", "y z"]
    assert MADE.command(Path("/p"), cpu="cortex-a72", env={"A": "1", "B": "x=y"}) == [
        *("/e/qemu", "-cpu", "cortex-a72", "-L", "/e/sysroot", "-E", "A=1", "-E", "B=x=y", "/p"),
    ]


def test_a_variable_with_a_comma_is_not_cut_by_the_emulator() -> None:
    command = MADE.command("/p", env={"A": "1,2", "B": "3"})
    assert command == ["env", "A=1,2", "/e/qemu", "-cpu", "max", "-L", "/e/sysroot", "-E", "B=3", "/p"]


def test_the_emulated_python_imports_the_packages() -> None:
    assert MADE.python_command("-c", "1")[5:] == [
        *("-E", "PYTHONNOUSERSITE=1", "-E", "PYTHONPATH=/e/packages", "/e/sysroot/python", "-c", "1"),
    ]
    assert "PYTHONPATH=/e/packages:/mine" in MADE.python_command(env={"PYTHONPATH": "/mine"})


def test_the_libraries_of_tvm_are_in_the_packages() -> None:
    assert MADE.runtime_libraries == {
        "libtvm_runtime.so": Path("/e/packages/tvm/lib/libtvm_runtime.so"),
        "libtvm_runtime_extra.so": Path("/e/packages/tvm/lib/libtvm_runtime_extra.so"),
        "libtvm_ffi.so": Path("/e/packages/tvm_ffi/lib/libtvm_ffi.so"),
    }


def test_an_environment_tells_its_parts(tmp_path: Path) -> None:
    made = of_environment(environment_of(write_folder(tmp_path)))
    assert made == Emulation(
        folder=tmp_path,
        qemu=tmp_path / "qemu/usr/bin/qemu-aarch64-static",
        sysroot=tmp_path / "sysroot",
        python=tmp_path / "sysroot/usr/bin/python3.11",
        packages=tmp_path / "packages",
        zig=(str(tmp_path / "bin/python"), "-m", "ziglang"),
    )


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ("sysroot", "sysroot is no folder"),
        ("packages", "packages is missing"),
        ("qemu", "qemu/usr/bin/qemu-aarch64-static is missing"),
    ],
)
def test_a_missing_part_is_said(part: str, problem: str, tmp_path: Path) -> None:
    (write_folder(tmp_path) / part).rename(tmp_path / "elsewhere")
    with pytest.raises(InputError) as caught:
        of_environment(environment_of(tmp_path))
    assert str(caught.value) == (
        f"the toolchain arm64-emulation in {tmp_path} is not whole: {tmp_path}/{problem}; make it anew with "
        "`convert toolchain install arm64-emulation --force`, without a variable CONVERT_PYTHON_ARM64_EMULATION"
    )


def test_a_variable_may_name_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVERT_PYTHON_ARM64_EMULATION", str(write_folder(tmp_path) / "bin/python"))
    found = find_emulation()
    assert found is not None
    assert found.folder == tmp_path


def test_a_variable_that_names_a_mere_python_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = write_folder(tmp_path) / "bin/python"
    (tmp_path / "sysroot").rename(tmp_path / "elsewhere")
    monkeypatch.setenv("CONVERT_PYTHON_ARM64_EMULATION", str(python))
    message = f"CONVERT_PYTHON_ARM64_EMULATION is '{python}', but the toolchain arm64-emulation in {tmp_path} is not"
    with pytest.raises(InputError, match=message):
        find_emulation()
    assert toolchains.status("arm64-emulation").problem.startswith(message)


def test_nothing_is_found_in_an_empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONVERT_PYTHON_ARM64_EMULATION", raising=False)
    monkeypatch.setenv("CONVERT_CACHE", str(tmp_path))
    assert find_emulation() is None


def test_the_newest_python_counts(tmp_path: Path) -> None:
    write_sysroot(tmp_path, "3.9")
    for name in ("python3.11", "python3.12", "python3.9-config", "python3.12-gdb.py"):
        (tmp_path / "usr/bin" / name).write_bytes(ARM64)
    assert [path.name for path in sysroot_pythons(tmp_path)] == ["python3.11", "python3.12"]
    assert sysroot_problem(tmp_path) == ""


@pytest.mark.parametrize("header", [X86_64, b"", b"#!/bin/sh\n", ARM64[:4] + b"\x01" + ARM64[5:]])
def test_a_python_of_another_machine_is_a_problem(header: bytes, tmp_path: Path) -> None:
    write_sysroot(tmp_path, header=header)
    assert sysroot_problem(tmp_path) == f"{tmp_path}/usr/bin/python3.11 is no program for arm64"


@pytest.fixture
def installed() -> Emulation:
    found = find_emulation()
    if found is None:
        pytest.skip("the toolchain arm64-emulation is not installed: convert toolchain install arm64-emulation")
    return found


def output_of(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


@pytest.mark.toolkit
def test_the_runtimes_work_under_the_emulator(installed: Emulation) -> None:
    code = (
        "import os, platform, sys, numpy, onnxruntime, ai_edge_litert.interpreter as litert\n"
        "print(platform.machine(), onnxruntime.__version__, os.environ['A'], litert.Interpreter.__name__)\n"
        "print(numpy.arange(4.0) @ numpy.arange(4.0))"
    )
    done = output_of(installed.python_command("-c", code, env={"A": "1,2"}))
    assert done == "aarch64 1.32.0 1,2 Interpreter\n14.0\n"


@pytest.mark.toolkit
def test_the_libraries_of_tvm_load_under_the_emulator(installed: Emulation) -> None:
    libraries = [str(installed.runtime_libraries[name]) for name in ("libtvm_ffi.so", "libtvm_runtime.so")]
    code = (
        "import ctypes, sys; ffi, runtime = [ctypes.CDLL(name, ctypes.RTLD_GLOBAL) for name in sys.argv[1:]]; "
        "print(bool(ffi.TVMFFIFunctionGetGlobal))"
    )
    assert output_of(installed.python_command("-c", code, *libraries, cpu="cortex-a72")) == "True\n"


@pytest.mark.toolkit
def test_what_zig_makes_runs_under_the_emulator(installed: Emulation, tmp_path: Path) -> None:
    # Without a C library, which zig builds for a minute when it is first asked.
    exits = 'void _start(void) { __asm__ volatile("mov x0, #7\\n mov x8, #93\\n svc #0"); }'
    (tmp_path / "seven.c").write_text(exits, encoding="utf-8")
    target = ("-target", "aarch64-linux-gnu", "-nostdlib", "-static")
    output_of([*installed.zig, "cc", *target, str(tmp_path / "seven.c"), "-o", str(tmp_path / "seven")])
    done = subprocess.run(installed.command(tmp_path / "seven"), check=False, timeout=60)
    assert done.returncode == 7

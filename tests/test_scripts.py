"""The shell scripts that set a fresh clone up, run against made-up interpreters."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone whose path has spaces in it, with an empty home and nothing but the shell's own tools on the PATH."""
    folder = tmp_path / "a clone"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    (folder / ".python-version").write_text("3.12\n", encoding="utf-8")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "dirname", "ls", "sort", "cat"):
        (tools / name).symlink_to(str(shutil.which(name)))
    (tmp_path / "path").mkdir()
    return folder


def run(script: str, clone: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    tmp = clone.parent
    settings = {"PATH": f"{tmp}/path:{tmp}/tools", "HOME": str(tmp / "home")} | variables
    return subprocess.run(
        ["sh", str(clone / "scripts" / script)], env=settings, capture_output=True, text=True, check=False
    )


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def good(path: Path) -> Path:
    """An interpreter that is new enough: this one."""
    return write_program(path, f'exec "{sys.executable}" "$@"')


def bad(path: Path) -> Path:
    """An interpreter that is too old, or a shim of a version manager that has none to run."""
    return write_program(path, "exit 1")


def found(clone: Path, **variables: str) -> Path:
    done = run("find-python.sh", clone, **variables)
    assert (done.returncode, done.stderr) == (0, "")
    return Path(done.stdout.removesuffix("\n"))


def test_the_newest_patch_of_pyenv_is_taken(clone: Path) -> None:
    versions = clone.parent / "home/.pyenv/versions"
    for version in ("3.12.1", "3.12.9", "3.13.0", "3.8.18"):
        good(versions / version / "bin/python")
    newest = good(versions / "3.12.10/bin/python")
    assert found(clone) == newest


def test_a_pyenv_elsewhere_is_found(clone: Path) -> None:
    python = good(clone.parent / "py env/versions/3.12.1/bin/python")
    assert found(clone, PYENV_ROOT=str(clone.parent / "py env")) == python


def test_a_broken_version_is_passed_over(clone: Path) -> None:
    versions = clone.parent / "home/.pyenv/versions"
    bad(versions / "3.12.10/bin/python")
    older = good(versions / "3.12.1/bin/python")
    assert found(clone) == older


def test_the_version_of_the_project_comes_before_a_newer_one(clone: Path) -> None:
    good(clone.parent / "home/.pyenv/versions/3.13.0/bin/python")
    right = good(clone.parent / "path/python3.12")
    assert found(clone) == right


def test_the_file_decides_which_version_is_right(clone: Path) -> None:
    (clone / ".python-version").write_text("3.13\n", encoding="utf-8")
    good(clone.parent / "path/python3.12")
    right = good(clone.parent / "path/python3.13")
    assert found(clone) == right


def test_uv_is_asked(clone: Path) -> None:
    python = good(clone.parent / "uv's/python3.12")
    write_program(clone.parent / "path/uv", f'[ "$*" = "python find --system 3.12" ] && echo "{python}"')
    assert found(clone) == python


def test_an_old_python3_is_passed_over_for_a_newer_one(clone: Path) -> None:
    bad(clone.parent / "path/python3")
    bad(clone.parent / "path/python3.12")
    newer = good(clone.parent / "path/python3.13")
    assert found(clone) == newer


def test_python3_is_taken_when_it_is_new_enough(clone: Path) -> None:
    python = good(clone.parent / "path/python3")
    assert found(clone) == python


def test_without_a_python_it_says_what_is_missing(clone: Path) -> None:
    bad(clone.parent / "path/python3")
    done = run("find-python.sh", clone)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "no Python 3.12 or newer that can make virtual environments was found (looked for 3.12, 3.13 and 3.14 in "
        "pyenv, uv and on the PATH); install one, for example with 'pyenv install 3.12' or 'uv python install 3.12'\n"
    )


def test_without_a_python_no_environment_is_begun(clone: Path) -> None:
    done = run("make-venv.sh", clone)
    assert done.returncode == 2
    assert done.stderr.startswith("no Python 3.12 or newer")
    assert not (clone / ".venv").exists()


def test_a_compiler_is_found(clone: Path) -> None:
    good(clone.parent / "path/clang++")
    done = run("check-compiler.sh", clone)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_missing_compiler_is_said(clone: Path) -> None:
    done = run("check-compiler.sh", clone)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "no C++ compiler was found (g++, clang++ and c++ are not on the PATH), and the tvm target links its libraries "
        "with one; install g++, on Debian with 'apt-get install g++'\n"
    )


def test_a_server_for_the_tests_of_ssh_is_found(clone: Path) -> None:
    for name in ("ssh", "sshd"):
        good(clone.parent / "path" / name)
    done = run("check-sshd.sh", clone)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_ssh_is_installed_by_root_where_it_is_missing(clone: Path) -> None:
    write_program(clone.parent / "path/id", "echo 0")
    write_program(clone.parent / "path/apt-get", 'echo "$*"')
    done = run("check-sshd.sh", clone)
    assert done.stdout.splitlines() == [
        "-qq update",
        "-qq install -y --no-install-recommends openssh-server openssh-client",
    ]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("apt", [True, False])
def test_a_missing_ssh_is_said(clone: Path, apt: bool) -> None:
    if apt:
        write_program(clone.parent / "path/id", "echo 1000")
        write_program(clone.parent / "path/apt-get", "echo called")
    done = run("check-sshd.sh", clone)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("OpenSSH is missing, and tests of devices behind ssh need its server and client; ")


def test_what_ci_runs_is_a_program() -> None:
    assert (ROOT / ".ci/run").stat().st_mode & 0o111

"""Installing toolchains with the real pip: nothing half-made is left or ever taken for an installation."""

from __future__ import annotations

import platform
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import filelock
import psutil
import pytest

from convert import toolchain_env as env
from convert import toolchain_install, toolchains
from convert.errors import ConvertError
from convert.toolchains import TOOLCHAINS, Toolchain

TINY = Toolchain("tiny", "for the tests", requirements=("tiny-kit",), shown=("tiny-kit",))


@pytest.fixture(autouse=True)
def no_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache folder, and no variable that names an interpreter."""
    monkeypatch.delenv("CONVERT_PYTHON_TVM", raising=False)
    monkeypatch.setenv("CONVERT_CACHE", str(tmp_path / "the cache"))


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toolchain:
    """A toolchain of one package, pinned to 1.0 and looked for in the folder ``wheels`` only."""
    constraints = tmp_path / "constraints"
    constraints.mkdir()
    (constraints / "tiny.txt").write_text("tiny-kit==1.0\n", encoding="utf-8")
    (tmp_path / "wheels").mkdir()
    monkeypatch.setattr(env, "_CONSTRAINTS", constraints)
    monkeypatch.setitem(TOOLCHAINS, "tiny", TINY)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", (tmp_path / "wheels").as_uri())
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_CONSTRAINT", "")
    return TINY


def write_wheel(folder: Path, version: str) -> None:
    """A wheel of ``tiny-kit`` with one empty module."""
    info = f"tiny_kit-{version}.dist-info"
    with zipfile.ZipFile(folder / f"tiny_kit-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny_kit.py", "")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-kit\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"tiny_kit.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


def write_cached(complete: bool = True) -> Path:
    """What an installation of the tiny toolchain leaves, made by hand; ``complete`` adds the mark."""
    folder = env.home("tiny") / f"{env.fingerprint(TINY)}-aaaa"
    info = folder / "lib/python3.12/site-packages/tiny_kit-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").touch()
    (folder / "bin").mkdir()
    (folder / "bin/python").symlink_to(sys.executable)
    if complete:
        env.mark_complete(folder)
    return folder


def silent(line: str) -> None:
    raise AssertionError(f"nothing was to be done, but it said {line!r}")


def test_install_makes_renews_and_remove_clears(tiny: Toolchain, tmp_path: Path) -> None:
    write_wheel(tmp_path / "wheels", "1.0")
    write_wheel(tmp_path / "wheels", "2.0")  # newer, but not what is pinned
    left_over = write_cached(complete=False)
    lines: list[str] = []
    made = toolchains.install("tiny", lines.append)
    assert made.versions == {"tiny-kit": "1.0"}
    assert made == toolchains.find("tiny")
    assert not left_over.exists()
    assert lines[0].startswith("tiny: making an environment in ")
    subprocess.run([made.python, "-I", "-c", "import tiny_kit"], check=True)

    assert toolchains.install("tiny", silent) == made

    renewed = toolchains.install("tiny", lines.append, force=True)
    assert renewed.python != made.python
    assert renewed == toolchains.find("tiny")
    assert not made.python.exists()

    assert toolchains.remove("tiny") is True
    assert toolchains.find("tiny") is None
    assert not renewed.python.parent.parent.exists()
    assert toolchains.remove("tiny") is False


def test_a_failed_install_says_why_and_leaves_nothing(tiny: Toolchain) -> None:
    with pytest.raises(ConvertError) as caught:
        toolchains.install("tiny", lambda _: None)
    log = env.log_file("tiny")
    assert str(caught.value) == (
        "the toolchain tiny could not be installed: pip found no release that fits tiny-kit==1.0, so the "
        "package index cannot be reached or lacks it, or it is not made for Python "
        f"{platform.python_version()} on this system; the whole output is in {log}"
    )
    assert "ERROR: Cannot install tiny-kit" in log.read_text(encoding="utf-8")
    assert [path.name for path in env.home("tiny").iterdir() if path.is_dir()] == []


def test_a_failed_renewal_keeps_what_was_there(tiny: Toolchain) -> None:
    folder = write_cached()
    with pytest.raises(ConvertError, match="pip found no release that fits tiny-kit"):
        toolchains.install("tiny", lambda _: None, force=True)
    found = toolchains.find("tiny")
    assert found is not None
    assert found.python == folder / "bin/python"


def test_an_interrupted_install_leaves_nothing(tiny: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain_install, "_HEARTBEAT_SECONDS", 0.05)

    def interrupt(line: str) -> None:
        if not line.startswith("tiny: making"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        toolchains.install("tiny", interrupt)
    assert toolchains.find("tiny") is None
    assert [path.name for path in env.home("tiny").iterdir() if path.is_dir()] == []


def test_an_interrupt_ends_the_process_and_its_children(
    tiny: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain_install, "_HEARTBEAT_SECONDS", 0.05)
    log = tmp_path / "log"
    child = "import time; time.sleep(600)"
    code = f"import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', {child!r}]); "
    code += "print('Collecting', p.pid, flush=True); time.sleep(600)"

    def interrupt(line: str) -> None:
        if "Collecting" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        toolchain_install._run([sys.executable, "-c", code], tiny, log, interrupt)
    pid = int(log.read_text(encoding="utf-8").split()[1])
    deadline = time.monotonic() + 10
    while alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_second_install_waits_for_the_first(tiny: Toolchain) -> None:
    env.home("tiny").mkdir(parents=True)
    lines: list[str] = []
    waiting = threading.Event()
    made: list[toolchains.Environment] = []

    def say(line: str) -> None:
        lines.append(line)
        waiting.set()

    second = threading.Thread(target=lambda: made.append(toolchains.install("tiny", say)))
    with filelock.FileLock(env.home("tiny") / "lock"):
        second.start()
        assert waiting.wait(10)
        folder = write_cached()
    second.join(10)
    assert lines == ["tiny: another process is at it, waiting for its end"]
    assert [environment.python for environment in made] == [folder / "bin/python"]


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CONVERT_CACHE", str(tmp_path / "file"))
    with pytest.raises(ConvertError) as caught:
        toolchains.install("tvm", silent)
    assert str(caught.value) == (
        f"the toolchain tvm could not be installed into {tmp_path}/file/toolchains/tvm (Not a directory); "
        "free space there, or set CONVERT_CACHE to another folder"
    )


def test_the_step_is_shown_without_the_address(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "Collecting torch==2.14.1\n"
        "  Downloading https://example.org/a/b/torch-2.14.1-cp312-cp312-linux.whl (900 MB)\n noise\n",
        encoding="utf-8",
    )
    assert toolchain_install._doing(log) == "Downloading torch-2.14.1 (900 MB)"


def test_the_complaint_is_the_last_error_of_pip(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("ERROR: first\nERROR: No matching distribution found for a\nmore\n", encoding="utf-8")
    assert toolchain_install.pip_complaint(log, 1) == "No matching distribution found for a"


def test_the_complaint_of_a_program_that_says_nothing(tmp_path: Path) -> None:
    assert toolchain_install.pip_complaint(tmp_path / "none", -9) == "it ended with exit code -9 and no output"


def test_the_complaint_of_a_package_that_cannot_be_built(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "  error: subprocess-exited-with-error\n× Encountered error while generating package metadata.\n"
        "╰─> tensorrt_cu13_libs\n\nnote: This is an issue with the package mentioned above, not pip.\n",
        encoding="utf-8",
    )
    assert toolchain_install.pip_complaint(log, 1) == (
        "Encountered error while generating package metadata. tensorrt_cu13_libs"
    )

"""Where toolchains are found, and that nothing half-made is ever taken for one."""

from __future__ import annotations

import platform
import re
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
from convert.errors import ConvertError, InputError
from convert.toolchains import TOOLCHAINS, Toolchain

TINY = Toolchain("tiny", "for the tests", requirements=("tiny-kit",), shown=("tiny-kit",))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and no variable that names an interpreter."""
    for name in TOOLCHAINS:
        monkeypatch.delenv(toolchains.variable(name), raising=False)
    monkeypatch.setenv("CONVERT_CACHE", str(tmp_path / "the cache"))
    return tmp_path / "the cache"


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


def write_environment(folder: Path, versions: dict[str, str], python: str = "3.12") -> Path:
    """What a virtual environment with ``versions`` looks like from outside; returns its interpreter."""
    packages = folder / "lib" / f"python{python}" / "site-packages"
    write_packages(packages, versions)
    (folder / "bin").mkdir()
    (folder / "bin/python").symlink_to(sys.executable)
    (folder / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {python}.1\n", encoding="utf-8")
    return folder / "bin/python"


def write_packages(packages: Path, versions: dict[str, str]) -> None:
    for name, version in versions.items():
        info = packages / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\n", encoding="utf-8")


def write_cached(toolchain: Toolchain, tail: str = "aaaa", complete: bool = True) -> Path:
    folder = env.home(toolchain.name) / f"{env.fingerprint(toolchain)}-{tail}"
    wanted = env.pins(toolchain.name)
    write_environment(folder, {name: wanted[name] for name in toolchain.shown})
    if complete:
        env.mark_complete(folder)
    return folder


def silent(line: str) -> None:
    raise AssertionError(f"nothing was to be done, but it said {line!r}")


def test_nothing_is_found_in_an_empty_cache() -> None:
    assert {name: toolchains.find(name) for name in ("onnx2tf", "tvm")} == {"onnx2tf": None, "tvm": None}


def test_the_cache_is_found_with_its_versions(cache: Path) -> None:
    folder = write_cached(TOOLCHAINS["tvm"])
    found = toolchains.find("tvm")
    assert found is not None
    assert found.origin == "cache"
    assert found.python == folder / "bin/python"
    assert found.site_packages == folder / "lib/python3.12/site-packages"
    assert found.versions == {
        "apache-tvm": "0.27.0.post1",
        "apache-tvm-ffi": "0.1.14.post1",
        "onnx": "1.23.2",
        "numpy": "2.5.5",
    }
    assert folder.is_relative_to(cache / "toolchains/tvm")


def test_an_environment_without_the_mark_is_not_there() -> None:
    write_cached(TOOLCHAINS["tvm"], complete=False)
    assert toolchains.find("tvm") is None


def test_a_finished_environment_is_found_beside_an_unfinished_one() -> None:
    write_cached(TOOLCHAINS["tvm"], "aaaa", complete=False)
    folder = write_cached(TOOLCHAINS["tvm"], "bbbb")
    found = toolchains.find("tvm")
    assert found is not None
    assert found.python == folder / "bin/python"


def test_an_environment_whose_python_is_gone_is_not_there() -> None:
    folder = write_cached(TOOLCHAINS["tvm"])
    (folder / "bin/python").unlink()
    (folder / "bin/python").symlink_to("/nowhere/python")
    assert toolchains.find("tvm") is None


def test_an_environment_that_lost_a_package_is_not_there() -> None:
    folder = write_cached(TOOLCHAINS["tvm"])
    (folder / "lib/python3.12/site-packages/apache_tvm-0.27.0.post1.dist-info/METADATA").unlink()
    assert toolchains.find("tvm") is None


def test_another_pin_is_another_folder(tiny: Toolchain) -> None:
    write_cached(tiny)
    before = env.fingerprint(tiny)
    assert toolchains.find("tiny") is not None
    env.constraints_file("tiny").write_text("tiny-kit==1.1\n", encoding="utf-8")
    assert env.fingerprint(tiny) != before
    assert toolchains.find("tiny") is None


def test_another_requirement_is_another_folder(tiny: Toolchain) -> None:
    other = Toolchain("tiny", tiny.purpose, ("tiny-kit", "more"), tiny.shown)
    assert env.fingerprint(other) != env.fingerprint(tiny)


def test_a_variable_wins_over_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cached(TOOLCHAINS["trt-rtx"])
    python = write_environment(tmp_path / "my own", {"tensorrt-rtx": "9.9"}, python="3.13")
    monkeypatch.setenv("CONVERT_PYTHON_TRT_RTX", str(python))
    found = toolchains.find("trt-rtx")
    assert found is not None
    assert (found.origin, found.python) == ("variable", python)
    assert found.site_packages == tmp_path / "my own/lib/python3.13/site-packages"
    assert found.versions == {"tensorrt-rtx": "9.9"}
    assert toolchains.status("trt-rtx").missing == ("onnx", "numpy")


@pytest.mark.parametrize("value", ["/nowhere/bin/python", "/tmp"])
def test_a_variable_that_names_no_program_is_an_error(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVERT_PYTHON_TVM", value)
    message = f"CONVERT_PYTHON_TVM is {value!r}, which is no program; set it to the path of a Python interpreter"
    with pytest.raises(InputError, match=re.escape(message)):
        toolchains.find("tvm")
    status = toolchains.status("tvm")
    assert (status.environment, status.problem) == (None, message)


def test_a_variable_without_packages_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    monkeypatch.setenv("CONVERT_PYTHON_TVM", str(tmp_path / "bin/python"))
    with pytest.raises(InputError, match="but no site-packages folder belongs to it; set it to the bin/python of a"):
        toolchains.find("tvm")


def test_the_right_one_of_several_python_folders(tmp_path: Path) -> None:
    python = write_environment(tmp_path / "venv", {"tiny-kit": "1.0"}, python="3.12")
    write_packages(tmp_path / "venv/lib/python3.11/site-packages", {"tiny-kit": "0.9"})
    assert env.site_packages(python) == tmp_path / "venv/lib/python3.12/site-packages"


ACCEPTED = {
    "torch": "2.14.1+cpu",
    "onnx": "1.23.2",
    "onnxscript": "0.7.2",
    "onnxruntime": "1.33.0",
    "onnxslim": "0.1.98",
    "litert-torch": "0.10.3",
    "ai-edge-litert": "2.3.0",
    "ai-edge-quantizer": "0.10.0",
    "numpy": "2.5.5",
}


def use_own_packages(packages: Path, versions: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    write_packages(packages, versions)
    monkeypatch.setattr(env, "own_folders", lambda: [packages])


def test_the_running_interpreter_serves_as_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_own_packages(tmp_path / "site", ACCEPTED, monkeypatch)
    found = toolchains.find("core")
    assert found is not None
    assert (found.origin, found.python, found.site_packages) == ("current", Path(sys.executable), tmp_path / "site")
    assert found.versions == ACCEPTED


@pytest.mark.parametrize(
    ("name", "version"), [("onnxscript", "0.6.2"), ("litert-torch", "0.11.0"), ("torch", "2.14.0"), ("numpy", "")]
)
def test_the_running_interpreter_with_a_wrong_version_does_not(
    name: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {key: value for key, value in (ACCEPTED | {name: version}).items() if value}
    use_own_packages(tmp_path / "site", versions, monkeypatch)
    assert toolchains.find("core") is None


def test_the_running_interpreter_never_serves_where_pins_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_own_packages(tmp_path / "site", env.pins("tvm") | env.pins("onnx2tf"), monkeypatch)
    assert toolchains.find("tvm") is None
    assert toolchains.find("onnx2tf") is None


def test_an_unknown_name_is_an_error() -> None:
    message = "there is no toolchain 'tf'; choose one of core, onnx2tf, tvm, trt-rtx, trt"
    for call in (toolchains.find, toolchains.status, toolchains.remove, toolchains.install_command):
        with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
            call("tf")
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        toolchains.install("tf", silent)


def test_the_command_that_installs() -> None:
    assert toolchains.install_command("trt-rtx") == "convert toolchain install trt-rtx"
    assert toolchains.variable("trt-rtx") == "CONVERT_PYTHON_TRT_RTX"


def test_install_makes_renews_and_remove_clears(tiny: Toolchain, tmp_path: Path) -> None:
    write_wheel(tmp_path / "wheels", "1.0")
    write_wheel(tmp_path / "wheels", "2.0")  # newer, but not what is pinned
    left_over = write_cached(tiny, complete=False)
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
        "the toolchain tiny could not be installed: pip found no release that fits tiny-kit==1.0, so the package "
        f"index lacks it or it is not made for Python {platform.python_version()} on this system; "
        f"the whole output is in {log}"
    )
    assert "ERROR: Cannot install tiny-kit" in log.read_text(encoding="utf-8")
    assert [path.name for path in env.home("tiny").iterdir() if path.is_dir()] == []


def test_a_failed_renewal_keeps_what_was_there(tiny: Toolchain) -> None:
    folder = write_cached(tiny)
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
        folder = write_cached(tiny)
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
        "Collecting torch==2.14.1\n  Downloading https://example.org/a/b/torch-2.14.1-cp312.whl (900 MB)\n noise\n",
        encoding="utf-8",
    )
    assert toolchain_install._doing(log) == "Downloading torch-2.14.1-cp312.whl (900 MB)"


def test_the_complaint_is_the_last_error_of_pip(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("ERROR: first\nERROR: No matching distribution found for a\nmore\n", encoding="utf-8")
    assert toolchain_install._complaint(log, 1) == "No matching distribution found for a"


def test_the_complaint_of_a_program_that_says_nothing(tmp_path: Path) -> None:
    assert toolchain_install._complaint(tmp_path / "none", -9) == "it ended with exit code -9 and no output"


def test_the_complaint_of_a_package_that_cannot_be_built(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "  error: subprocess-exited-with-error\n× Encountered error while generating package metadata.\n"
        "╰─> tensorrt_cu13_libs\n\nnote: This is an issue with the package mentioned above, not pip.\n",
        encoding="utf-8",
    )
    assert toolchain_install._complaint(log, 1) == (
        "Encountered error while generating package metadata. tensorrt_cu13_libs"
    )


def test_finding_is_fast_and_loads_nothing_heavy() -> None:
    code = (
        "import sys, convert.toolchains as t; [t.find(name) for name in t.TOOLCHAINS]; "
        "print(sorted({'torch', 'numpy', 'tensorflow', 'tvm', 'filelock', 'subprocess'} & set(sys.modules)))"
    )
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def constraint_files() -> list[Path]:
    return sorted((Path(toolchains.__file__).parent / "constraints").glob("*.txt"))


def test_every_toolchain_has_its_constraints() -> None:
    assert {path.stem for path in constraint_files()} == {*TOOLCHAINS, "dev"}


@pytest.mark.parametrize("path", constraint_files(), ids=lambda path: path.stem)
def test_constraints_hold_exact_versions_and_nothing_else(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*==[0-9][a-z0-9.]*", line)] == []
    names = [line.partition("==")[0] for line in lines]
    assert names == sorted(set(names))


@pytest.mark.parametrize("toolchain", [t for t in TOOLCHAINS.values() if t.name != "tiny"], ids=lambda t: t.name)
def test_all_that_is_asked_for_and_shown_is_pinned(toolchain: Toolchain) -> None:
    wanted = {env.normalise(name.split("[")[0]) for name in (*toolchain.requirements, *toolchain.shown)}
    assert wanted - set(env.pins(toolchain.name)) == set()


@pytest.mark.parametrize("other", ["tvm", "dev"])
def test_versions_agree_where_environments_share_packages(other: str) -> None:
    core, theirs = env.pins("core"), env.pins(other)
    # What tvm does not import together with the packages it borrows from core may differ.
    free = {"typing-extensions"} if other == "tvm" else set()
    differing = {name for name in core.keys() & theirs.keys() if core[name] != theirs[name]}
    assert differing - free == set()

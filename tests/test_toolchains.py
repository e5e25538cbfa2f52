"""Where toolchains are found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from convert import toolchain_env as env
from convert import toolchains
from convert.errors import InputError
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
    """A toolchain of one package, pinned to 1.0."""
    constraints = tmp_path / "constraints"
    constraints.mkdir()
    (constraints / "tiny.txt").write_text("tiny-kit==1.0\n", encoding="utf-8")
    monkeypatch.setattr(env, "_CONSTRAINTS", constraints)
    monkeypatch.setitem(TOOLCHAINS, "tiny", TINY)
    return TINY


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


@pytest.mark.parametrize(("version", "serves"), [("1.31.1", True), ("1.31.0", False)])
def test_onnxruntime_for_a_gpu_does_instead(
    version: str, serves: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {key: value for key, value in ACCEPTED.items() if key != "onnxruntime"}
    use_own_packages(tmp_path / "site", versions | {"onnxruntime-gpu": version}, monkeypatch)
    found = toolchains.find("core")
    assert (found is not None) == serves
    assert found is None or found.versions == versions | {"onnxruntime-gpu": version}


def test_an_environment_of_ones_own_with_onnxruntime_for_a_gpu_lacks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {key: value for key, value in ACCEPTED.items() if key != "onnxruntime"}
    python = write_environment(tmp_path / "own", versions | {"onnxruntime-gpu": "1.31.1"})
    monkeypatch.setenv("CONVERT_PYTHON_CORE", str(python))
    assert toolchains.status("core").missing == ()
    monkeypatch.setenv("CONVERT_PYTHON_CORE", str(write_environment(tmp_path / "other", versions)))
    assert toolchains.status("core").missing == ("onnxruntime",)


def test_the_running_interpreter_never_serves_where_pins_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_own_packages(tmp_path / "site", env.pins("tvm") | env.pins("onnx2tf"), monkeypatch)
    assert toolchains.find("tvm") is None
    assert toolchains.find("onnx2tf") is None


def test_an_unknown_name_is_an_error() -> None:
    message = "there is no toolchain 'tf'; choose one of core, onnx2tf, tvm, tvm-tuning, trt-rtx, trt, arm64-emulation"
    for call in (toolchains.find, toolchains.status, toolchains.remove, toolchains.install_command):
        with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
            call("tf")
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        toolchains.install("tf", silent)


def test_the_command_that_installs() -> None:
    assert toolchains.install_command("trt-rtx") == "convert toolchain install trt-rtx"
    assert toolchains.variable("trt-rtx") == "CONVERT_PYTHON_TRT_RTX"


def test_finding_loads_nothing_heavy() -> None:
    code = (
        "import sys, convert.toolchains as t; [t.find(name) for name in t.TOOLCHAINS]; "
        "print(sorted({'torch', 'numpy', 'tensorflow', 'tvm', 'filelock'} & set(sys.modules)))"
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

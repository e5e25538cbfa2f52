"""What gets installed: all of the project under the one name ``convert``, light to import."""

from __future__ import annotations

import os
import pkgutil
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from helpers.command import importing

from convert import __version__
from convert.toolchains import TOOLCHAINS

ROOT = Path(__file__).resolve().parent.parent
LINKED = ("targets", "validators", "models")
TOOLKITS = (
    "ai_edge_litert",
    "ai_edge_quantizer",
    "jax",
    "litert_torch",
    "onnx",
    "onnx2tf",
    "onnxruntime",
    "onnxscript",
    "onnxslim",
    "tensorflow",
    "tensorrt",
    "tensorrt_rtx",
    "torch",
    "tvm",
)


def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def source_files(pattern: str) -> set[str]:
    """Paths of source files as they are to be installed."""
    found = {path.relative_to(ROOT).as_posix() for path in (ROOT / "convert").rglob(pattern)}
    for folder in LINKED:
        found |= {f"convert/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / folder).rglob(pattern)}
    return {path for path in found if "__pycache__" not in path}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy so that nothing is left in the working folder."""
    copy = tmp_path_factory.mktemp("a copy")
    for name in ("convert", *LINKED):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (*ROOT.glob("*.toml"), *ROOT.glob("*.md")):
        shutil.copy(path, copy)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(copy / "out"), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (copy / "out").glob("*.whl")
    return built


@pytest.mark.parametrize("package", ["convert", "convert.qat"])
def test_no_public_name_is_a_module_too(package: str) -> None:
    """Importing such a module anywhere would put it in the place of the function."""
    public = import_module(package)
    modules = {module.name for module in pkgutil.iter_modules(public.__path__)}
    assert modules
    assert modules.isdisjoint(public.__all__)


def test_every_package_is_listed() -> None:
    listed = set(settings()["tool"]["setuptools"]["packages"])
    folders = {Path(path).parent.as_posix().replace("/", ".") for path in source_files("__init__.py")}
    assert listed == folders


def test_the_links_are_what_the_mapping_says() -> None:
    mapping = settings()["tool"]["setuptools"]["package-dir"]
    assert mapping == {"convert": "convert"} | {f"convert.{name}": name for name in LINKED}
    assert {name: (ROOT / "convert" / name).readlink().as_posix() for name in LINKED} == {
        name: f"../{name}" for name in LINKED
    }


def test_the_wheel_holds_all_modules_and_data_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    info = f"convert-{__version__}.dist-info"
    assert {name.split("/")[0] for name in names} == {"convert", info}
    wanted = source_files("*.py") | source_files("*.txt") | source_files("py.typed")
    wanted |= source_files("*.pt") | source_files("*.pt2") | source_files("*.npz")
    wanted |= source_files("*.c") | source_files("*.json")
    assert {name for name in names if not name.startswith(info)} == wanted
    assert {"convert/py.typed", "convert/constraints/tvm.txt", "convert/models/digits/digits.pt2"} <= wanted


def test_the_wheel_has_the_command_and_no_heavy_dependency(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = f"convert-{__version__}.dist-info"
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
        metadata = archive.read(f"{info}/METADATA").decode().splitlines()
    assert entry_points == "[console_scripts]\nconvert = convert.cli:main\n"
    requires = [line.removeprefix("Requires-Dist: ") for line in metadata if line.startswith("Requires-Dist: ")]
    base = sorted(line.split(">=")[0] for line in requires if "extra ==" not in line)
    assert base == ["click", "cloudpickle", "filelock", "numpy", "packaging", "platformdirs", "psutil", "rich"]


@pytest.mark.parametrize("name", ["core", "trt", "trt-rtx"])
def test_an_extra_is_what_its_toolchain_accepts(name: str) -> None:
    assert tuple(settings()["project"]["optional-dependencies"][name]) == TOOLCHAINS[name].accepts


def test_a_toolchain_with_conflicting_pins_has_no_extra() -> None:
    extras = set(settings()["project"]["optional-dependencies"])
    assert extras == {name for name, toolchain in TOOLCHAINS.items() if toolchain.accepts} | {"dev", "gpu"}


def test_the_extra_for_a_gpu_is_what_core_accepts_instead() -> None:
    (other,) = TOOLCHAINS["core"].instead
    assert other == ("onnxruntime", *settings()["project"]["optional-dependencies"]["gpu"])


def loaded_by(code: str) -> list[str]:
    """The toolkits that a fresh interpreter has loaded once ``code`` has run."""
    report = f"\nimport sys\nprint('LOADED', *sorted(set({TOOLKITS!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code + report], env=importing(), capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1].split()[1:]


def parent_modules() -> list[str]:
    """All modules but those of the folders that are linked in, the stages, which run in workers, and training."""
    found = [path.relative_to(ROOT) for path in (ROOT / "convert").rglob("[!_]*.py")]
    others = {*LINKED, "stages", "qat"}
    return sorted(".".join(path.with_suffix("").parts) for path in found if path.parts[1] not in others)


def test_the_test_would_notice_a_toolkit(tmp_path: Path) -> None:
    (tmp_path / "torch.py").touch()
    assert loaded_by(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import torch") == ["torch"]


def test_no_module_of_the_parent_loads_a_toolkit() -> None:
    names = [*parent_modules(), "convert.targets.base", "convert.validators", "convert.models"]
    names += ["convert.qat.kinds", "convert.qat.plan", "convert.qat.ranges"]
    assert {"convert.cli", "convert.toolchains", "convert.steps.export"} <= set(names)
    assert loaded_by(f"import {', '.join(names)}") == []


def test_the_metadata_of_targets_loads_no_toolkit() -> None:
    code = "from convert.targets import TARGETS, load_target\nfor name in TARGETS: load_target(name)"
    assert loaded_by(code) == []


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["targets"], ["toolchain", "list"]])
def test_no_toolkit_is_loaded_where_none_is_needed(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONVERT_CACHE", str(tmp_path))
    code = (
        "import sys\nfrom convert.cli import main\n"
        f"sys.argv = ['convert', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code"
    )
    assert loaded_by(code) == []


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-I", "-m", "venv", str(tmp_path / "a venv")], check=True)
    python = tmp_path / "a venv/bin/python"
    constraints = ROOT / "convert/constraints/dev.txt"
    install = ["-I", "-m", "pip", "install", "--quiet", "--constraint", str(constraints), str(wheel)]
    subprocess.run([str(python), *install], check=True)
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    variables["CONVERT_CACHE"] = str(tmp_path / "cache")

    def output(*command: str | Path) -> str:
        return subprocess.run(
            command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=True, timeout=60
        ).stdout

    convert = tmp_path / "a venv/bin/convert"
    assert output(convert, "--version").split()[-1] == __version__
    assert "toolchain" in output(convert, "--help")
    assert "toolchain" in output(python, "-m", "convert", "--help")
    assert "convert toolchain install core" in " ".join(output(convert, "targets").split())
    assert "onnx2tf" in output(convert, "toolchain", "list")
    names = "targets", "validators", "models"
    code = f"import importlib.util as u; print([n for n in {names!r} if u.find_spec(n)])"
    assert output(python, "-c", code) == "[]\n"

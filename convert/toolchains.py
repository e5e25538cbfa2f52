"""The toolchains: which there are, where each one is found, how it gets there.

Converters pin versions that conflict, so each set of packages has an environment of its own, and only worker
processes run in it. This module reads folder names and never imports a toolkit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from convert import emulation
from convert import toolchain_env as env
from convert.errors import InputError
from convert.toolchain_env import Environment, Toolchain, cache_root

__all__ = [
    "TOOLCHAINS",
    "Environment",
    "Status",
    "Toolchain",
    "cache_root",
    "find",
    "install",
    "install_command",
    "remove",
    "status",
    "variable",
]

_ALL = (
    Toolchain(
        name="core",
        purpose="reads the model, exports ONNX, makes and runs onnx and tflite",
        requirements=(
            "click",
            "rich",
            "numpy",
            "psutil",
            "filelock",
            "platformdirs",
            "packaging",
            "torch",
            "onnx",
            "onnxscript",
            "onnxruntime",
            "onnxslim",
            "litert-torch",
            "ai-edge-litert",
            "ai-edge-quantizer",
        ),
        shown=(
            "torch",
            "onnx",
            "onnxscript",
            "onnxruntime",
            "onnxslim",
            "litert-torch",
            "ai-edge-litert",
            "ai-edge-quantizer",
            "numpy",
        ),
        accepts=(
            "torch>=2.14.1",
            "onnx>=1.23.2",
            "onnxscript>=0.7.2",
            "onnxruntime>=1.32.0",
            "onnxslim>=0.1.98",
            "litert-torch>=0.10.0,<0.11",
            "ai-edge-litert>=2.3.0",
            "ai-edge-quantizer>=0.10.0,<0.11",
        ),
        instead=(("onnxruntime", "onnxruntime-gpu>=1.31.1"),),
    ),
    Toolchain(
        name="onnx2tf",
        purpose="second way to tflite, from ONNX",
        requirements=("onnx2tf[tensorflow]", "tensorflow", "tf-keras"),
        shown=("onnx2tf", "tensorflow", "tf-keras", "ai-edge-litert"),
    ),
    Toolchain(
        name="tvm",
        purpose="makes and runs tvm",
        requirements=("apache-tvm", "apache-tvm-ffi", "onnx", "numpy", "psutil", "cloudpickle"),
        shown=("apache-tvm", "apache-tvm-ffi", "onnx", "numpy"),
    ),
    Toolchain(
        name="tvm-tuning",
        purpose="learns from measured kernels for --tune",
        requirements=("xgboost-cpu", "filelock", "platformdirs"),
        shown=("xgboost-cpu", "filelock"),
        optional=True,
    ),
    Toolchain(
        name="trt-rtx",
        purpose="tries on the CPU whether TensorRT takes the graph",
        requirements=("tensorrt-rtx", "onnx", "numpy"),
        shown=("tensorrt-rtx", "onnx", "numpy"),
        accepts=("tensorrt-rtx>=1.7.1",),
        optional=True,
    ),
    Toolchain(
        name="trt",
        purpose="makes and runs trt on a machine with an NVIDIA GPU",
        requirements=("tensorrt", "onnx", "numpy"),
        shown=("tensorrt", "onnx", "numpy"),
        accepts=("tensorrt>=11.4",),
        optional=True,
    ),
    Toolchain(
        name=emulation.NAME,
        purpose="runs arm64 artifacts on this machine, and links for other platforms",
        requirements=("ziglang",),
        shown=("ziglang",),
        optional=True,
        # apt adds what these need: the newest Python of the release with its libraries, and the C library.
        system_packages=("python3-minimal", "libpython3-stdlib", "libstdc++6", "libgomp1", "qemu-user-static:amd64"),
        foreign_wheels="arm64-packages",
        # The compiler of TVM is 240 MB that nobody runs under an emulator.
        foreign_parts=tuple(emulation.LIBRARIES.values()),
    ),
)

TOOLCHAINS: dict[str, Toolchain] = {toolchain.name: toolchain for toolchain in _ALL}


@dataclass(frozen=True)
class Status:
    """One line of the list of toolchains.

    Attributes:
        toolchain: which one.
        environment: where it is; None when it is not there.
        missing: shown distributions that the environment lacks (only one that a variable names can lack any).
        problem: why the variable that names it cannot be used; empty when nothing is wrong.
        install: the command that gets it.
    """

    toolchain: Toolchain
    environment: Environment | None
    missing: tuple[str, ...]
    problem: str
    install: str


def find(name: str) -> Environment | None:
    """The environment of toolchain ``name``: the one its variable names, the running interpreter, or the cache's.

    Returns:
        None when it is nowhere. Only folder names are read, which takes milliseconds.

    Raises:
        InputError: ``name`` is no toolchain, or its variable names no usable interpreter.
    """
    toolchain = _get(name)
    return _from_variable(toolchain) or _from_current(toolchain) or env.cached(toolchain)


def variable(name: str) -> str:
    """The environment variable that names an interpreter for ``name``, such as ``CONVERT_PYTHON_TRT_RTX``."""
    return f"CONVERT_PYTHON_{name.upper().replace('-', '_')}"


def install_command(name: str) -> str:
    """What a user types to get toolchain ``name``."""
    return f"convert toolchain install {_get(name).name}"


def status(name: str) -> Status:
    """Where toolchain ``name`` stands; a wrong variable becomes its ``problem`` instead of an error."""
    toolchain = _get(name)
    try:
        environment, problem = find(name), ""
    except InputError as error:
        environment, problem = None, str(error)
    missing = () if environment is None else toolchain.lacking(environment.versions)
    return Status(toolchain, environment, missing, problem, install_command(name))


def install(name: str, say: Callable[[str], None], force: bool = False) -> Environment:
    """Make the environment of ``name`` in the cache folder, unless :func:`find` already has one.

    ``say`` gets a line every few seconds. An installation that ends early, for whatever reason, leaves nothing that
    :func:`find` would take. ``force`` makes it anew; the old environment stays until the new one is whole.

    Raises:
        InputError: ``name`` is no toolchain, or its variable names no usable interpreter.
        ConvertError: pip or apt-get failed; the message has its last line and the path of the log.
    """
    from convert.toolchain_install import make  # only here: most runs install nothing

    toolchain = _get(name)
    present = None if force else find(name)
    return present or make(toolchain, say, force)


def remove(name: str) -> bool:
    """Remove every environment of ``name`` from the cache folder; whether there was any."""
    from convert.toolchain_install import wipe

    return wipe(_get(name))


def _get(name: str) -> Toolchain:
    if name not in TOOLCHAINS:
        raise InputError(f"there is no toolchain {name!r}; choose one of {', '.join(TOOLCHAINS)}")
    return TOOLCHAINS[name]


def _from_variable(toolchain: Toolchain) -> Environment | None:
    key = variable(toolchain.name)
    value = os.environ.get(key)
    if not value:
        return None
    python = Path(value).expanduser().absolute()
    if not python.is_file() or not os.access(python, os.X_OK):
        raise InputError(f"{key} is {value!r}, which is no program; set it to the path of a Python interpreter")
    folder = env.site_packages(python)
    if folder is None:
        raise InputError(
            f"{key} is {value!r}, but no site-packages folder belongs to it; "
            "set it to the bin/python of a virtual environment"
        )
    environment = env.read(toolchain, python, folder, "variable")
    if toolchain.system_packages:
        _require_parts(environment, key, value)
    return environment


def _require_parts(environment: Environment, key: str, value: str) -> None:
    """Say it when what lies beside the packages of Python is not there."""
    try:
        emulation.of_environment(environment)
    except InputError as error:
        raise InputError(f"{key} is {value!r}, but {error}") from error


def _from_current(toolchain: Toolchain) -> Environment | None:
    if not toolchain.accepts:
        return None
    found = env.installed(env.own_folders(), toolchain.known)
    if toolchain.lacking(found):
        return None
    from packaging.requirements import Requirement  # only here: it costs as much as all the rest

    for requirement in map(Requirement, (*toolchain.accepts, *(other for _, other in toolchain.instead))):
        # One that is not there has another instead, or is that other.
        if requirement.name in found and not requirement.specifier.contains(
            found[requirement.name][0], prereleases=True
        ):
            return None
    versions = {name: version for name, (version, _) in found.items()}
    return Environment(toolchain.name, Path(sys.executable), found[toolchain.shown[0]][1], "current", versions)

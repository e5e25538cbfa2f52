"""Compile one module to one shared library, for this machine's CPU or for another platform."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from convert.errors import StageError
from convert.platforms import PLATFORMS, cpu_of, host_platform
from convert.targets import tvm_link
from convert.targets.base import BuildRequest
from convert.targets.elf import problem
from convert.targets.tvm_runner import libraries_for
from convert.targets.tvm_tuning.build import with_schedules


def compile_module(module: Any, file: Path, request: BuildRequest) -> dict[str, Any]:
    """Compile ``module`` to the shared library ``file``.

    Returns:
        What stands in the manifest: the settings of the target, and what linked it.

    Raises:
        StageError: nothing here links for the platform, or the linker failed.
    """
    import tvm

    target = target_of(request)
    module, tuning = with_schedules(module, target, request.settings.get("tuning", {}))
    library = tvm.compile(module, target=target)
    shown = {key: _plain(value) for key, value in dict(target.export()).items() if _plain(value) not in (None, [])}
    if request.platform == host_platform():
        library.export_library(str(file), workspace_dir=str(request.scratch))
        return {"target": shown, **tuning}
    linker = tvm_link.linker_for(request.platform, request.settings.get("zig", ()))
    if linker is None:
        raise StageError(f"tvm needs {tvm_link.lacking(request.platform)}")
    call = tvm_link.link(linker, request.platform, request.scratch)

    def link(output: str, objects: Sequence[str], **options: Any) -> None:
        if request.platform.startswith("android/"):
            tvm_link.write_objects(file.with_suffix(".tar"), objects)
        call(output, objects, **options)

    library.export_library(str(file), fcompile=link, workspace_dir=str(request.scratch))
    # On some platforms nothing runs it before it is shipped.
    wrong = problem(file, request.platform)
    if wrong:
        raise StageError(f"{linker.name} made a file that {wrong}")
    return {"target": shown, "linker": linker.name, **tuning}


def _plain(value: Any) -> Any:
    """What JSON can hold of a setting of the target; None for the rest."""
    if isinstance(value, str | int):
        return value
    if type(value).__name__ in ("Array", "list", "tuple"):
        return [str(item) for item in value]
    return None


def target_of(request: BuildRequest) -> Any:
    """TVM's target for the CPU that was chosen; without a choice this machine's own, or the platform's default."""
    import tvm

    if request.platform == host_platform() and not request.cpu:
        return _host_target()
    platform, cpu = PLATFORMS[request.platform], cpu_of(request.platform, request.cpu)
    settings: dict[str, Any] = {"kind": "llvm", "mtriple": platform.triple, "mcpu": cpu.mcpu, **platform.settings}
    if cpu.mattr:
        settings["mattr"] = list(cpu.mattr)
    return tvm.target.Target(settings)


def _host_target() -> Any:
    """This machine's CPU by its LLVM name, so that its vector units are used; the name is in the manifest."""
    import tvm

    cpu = tvm.get_global_func("target.llvm_get_system_cpu", allow_missing=True)
    target: dict[str, Any] = {"kind": "llvm"}
    if cpu is not None and cpu():
        target["mcpu"] = str(cpu())
    return tvm.target.Target(target)


def add_runtime(request: BuildRequest) -> tuple[str, ...]:
    """Put what else belongs to the artifact beside it: the runtime libraries, Android's archives of objects.

    Returns:
        The names of these files, in the order of the manifest.
    """
    archives = tuple(sorted(path.name for path in request.folder.glob("*.tar")))
    libraries = request.settings.get("runtime_libraries", {}).get(request.platform, {})
    needed = libraries_for(request.folder.glob("*.so")) if libraries else ()
    for name in needed:
        shutil.copyfile(libraries[name], request.folder / name)
    return (*archives, *needed)

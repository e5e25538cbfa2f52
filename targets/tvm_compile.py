"""Compile one module to one shared library, for this machine's CPU or for another platform.

Its kernels are scheduled by rules; where that fails, or the result is not the source's, it is TVM's own module.
"""

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
from convert.targets.tvm_engine import engine_of
from convert.targets.tvm_runner import libraries_for
from convert.targets.tvm_schedule.apply import scheduled
from convert.targets.tvm_schedule.check import unlike
from convert.targets.tvm_schedule.report import Report, first_line
from convert.targets.tvm_tuning.build import Schedules


def compile_module(module: Any, file: Path, request: BuildRequest) -> dict[str, Any]:
    """Compile ``module`` to the shared library ``file``.

    Returns:
        What stands in the manifest: the settings of the target, what linked it, and which rules made its kernels.

    Raises:
        StageError: nothing here links for the platform, or the linker failed.
    """
    target = target_of(request)
    shown = {key: _plain(value) for key, value in dict(target.export()).items() if _plain(value) not in (None, [])}
    tuned = Schedules.of(target, request.settings.get("tuning", {}))
    problems: list[str] = []
    for kernels in (tuned, None) if tuned is not None else (None,):
        planned, report = scheduled(module, target, tuned=kernels)
        why, linker = _tried(planned, target, file, request)
        if not why:
            found = {} if kernels is None else {"tuning": kernels.said()}
            return {"target": shown, **linker, "schedule": report.summary(problems), **found}
        problems.append(f"{'what was tuned' if kernels else 'the rules'}: {why}")
    linker = _write(module, target, file, request)
    return {"target": shown, **linker, "schedule": Report().summary(problems)}


def _tried(module: Any, target: Any, file: Path, request: BuildRequest) -> tuple[str, dict[str, str]]:
    """Write a scheduled module; returns why it cannot be used, else nothing, and what linked it."""
    linker: dict[str, str] = {}
    try:
        linker = _write(module, target, file, request)
        return _unlike(module, file, request), linker
    except StageError:  # of the linker: no schedule would change that
        raise
    except Exception as error:  # whatever TVM raises of what a rule made
        return f"it cannot be built: {first_line(error)}", linker


def _write(module: Any, target: Any, file: Path, request: BuildRequest) -> dict[str, str]:
    """The module as a shared library; returns what linked it, where that is not the host's own compiler."""
    import tvm

    library = tvm.compile(module, target=target)
    if request.platform == host_platform():
        library.export_library(str(file), workspace_dir=str(request.scratch))
        return {}
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
    return {"linker": linker.name}


def _unlike(module: Any, file: Path, request: BuildRequest) -> str:
    """How the scheduled module differs from the source; empty where it does not, or nothing is known of the source.

    What is for another CPU is compiled for this one, with the very same schedules.
    """
    import tvm
    from tvm import relax

    if request.golden is None or "limits" not in request.settings:
        return ""
    if request.platform == host_platform() and not request.cpu:
        code = tvm.runtime.load_module(str(file))
    else:
        code = tvm.compile(module, target=_host_target())
    main = relax.VirtualMachine(code, tvm.cpu())["main"]
    sizes = [list(parameter.ty.shape.values) for parameter in module["main"].params]
    return unlike(engine_of(main), sizes, request.golden, request.golden_folder, request.settings["limits"])


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

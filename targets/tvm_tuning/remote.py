"""Time candidates on a device: each is compiled and linked here, and run there by the program that runs artifacts."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from convert.errors import StageError
from convert.targets import tvm_link
from convert.targets.tvm_tuning.kernels import Kernel
from convert.targets.tvm_tuning.measure import Time, builder_of

_LEAST_SECONDS = 0.02
_FEWEST, _MOST = 3, 200


class OnDevice:
    """Candidates are timed in a place, one after the other, with one thread."""

    def __init__(self, target: Any, platform: str, place: Any, zig: Sequence[str]) -> None:
        """``place`` is a :class:`convert.remote.place.Place`; ``zig`` starts zig, where it is installed.

        Raises:
            StageError: nothing here links for the platform, or the program for it cannot be made.
        """
        from convert.targets.tvm_tuning import remote_build

        linker = tvm_link.linker_for(platform, zig)
        if linker is None:
            raise StageError(f"tuning needs {tvm_link.lacking(platform, zig)}")
        self._link = partial(_linked, linker, platform)
        self._target = target
        self._platform = platform
        self._place = place
        self._builder = builder_of(remote_build.build, remote_build.export)

    def __call__(self, kernels: Sequence[Kernel], modules: Sequence[Any], arguments: Sequence[Any]) -> list[Time]:
        """See :class:`convert.targets.tvm_tuning.measure.Measurer`."""
        from tvm.s_tir import meta_schedule as ms

        del arguments
        marked = [_marked(kernel, module) for kernel, module in zip(kernels, modules, strict=True)]
        built = self._builder.build([ms.builder.BuilderInput(one, self._target) for one in marked])
        return [
            str(one.error_msg) if one.error_msg else self._timed(kernel, Path(str(one.artifact_path)))
            for kernel, one in zip(kernels, built, strict=True)
        ]

    def _timed(self, kernel: Kernel, objects: Path) -> Time:
        try:
            with tempfile.TemporaryDirectory() as folder:
                return self._run(kernel, self._link(objects, Path(folder)))
        except StageError as error:
            return error.reason
        finally:
            shutil.rmtree(objects.parent, ignore_errors=True)

    def _run(self, kernel: Kernel, library: Path) -> Time:
        from convert.remote.place import Program
        from convert.remote.session import Remote
        from convert.targets.tvm_remote import libraries_of, runner_of
        from convert.targets.tvm_runner import NAME

        libraries = libraries_of((library,), self._platform)
        files = {NAME: runner_of(self._platform, libraries), library.name: library, **libraries}
        remote = Remote(self._place, Program(files, (NAME, library.name), {"TVM_NUM_THREADS": "1"}))
        try:
            remote.run(_feeds(kernel))
            least = min(remote.times(_FEWEST))
            return tuple(remote.times(max(_FEWEST, min(_MOST, int(_LEAST_SECONDS / least))))[:16])
        finally:
            remote.close()


def _marked(kernel: Kernel, module: Any) -> Any:
    """The module with the number of results of the kernel, which its schedule does not know."""
    import tvm

    from convert.targets.tvm_tuning.remote_build import RESULTS

    return tvm.IRModule({"main": module["main"].with_attr(RESULTS, kernel.results)})


def _linked(linker: tvm_link.Linker, platform: str, objects: Path, folder: Path) -> Path:
    with tarfile.open(objects) as archive:
        archive.extractall(folder, filter="data")
    made = folder / "kernel.so"
    names = sorted(str(path) for path in folder.iterdir())
    tvm_link.link(linker, platform, folder)(str(made), names)
    return made


def _feeds(kernel: Kernel) -> list[Any]:
    """Random numbers, and zeros where a number may be an index."""
    rng = np.random.default_rng(0)
    feeds = []
    for one in list(kernel.module["main"].params)[: -kernel.results]:
        shape, dtype = [int(size) for size in one.shape], np.dtype(str(one.dtype))
        feeds.append((rng.normal(size=shape) if dtype.kind == "f" else np.zeros(shape)).astype(dtype))
    return feeds

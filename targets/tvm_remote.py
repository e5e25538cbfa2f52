"""A TVM artifact in another place: one runner per module, behind the session that serves modules here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from convert.emulation import LIBRARIES as PLACES
from convert.emulation import find_emulation
from convert.errors import StageError
from convert.platforms import host_platform
from convert.records import Artifact
from convert.remote.place import Place, Program
from convert.remote.session import Remote, TimedSession
from convert.targets.base import Arrays
from convert.targets.elf import problem
from convert.targets.tvm import TvmSession
from convert.targets.tvm_runner import EXTRA, LIBRARIES, NAME, libraries_for, runner_for
from convert.toolchain_env import cache_root
from convert.toolchains import find

Array = np.ndarray[Any, Any]
_ALL = (*LIBRARIES, EXTRA)


class TvmElsewhere(TimedSession):
    """The modules of an artifact, each held by a runner in ``place`` once it is needed."""

    def __init__(self, artifact: Artifact, folder: Path, threads: int, place: Place) -> None:
        """Compile the runner if need be; the first module is loaded at once, so that one that cannot be fails here."""
        self._artifact = artifact
        self._folder = folder
        self._threads = threads
        self._place = place
        self._libraries = _shipped(artifact, folder, place.platform)
        self._remotes: dict[str, Remote] = {}
        self._last: Remote | None = None
        self._runner = runner_of(place.platform, self._libraries)
        self._session = TvmSession(artifact, self._load)
        self._remote(artifact.files[0])

    def _remote(self, file: str) -> Remote:
        if file not in self._remotes:
            wrong = problem(self._folder / file, self._place.platform)
            if wrong:
                raise StageError(f"{self._place.name}: {file} {wrong}")
            files = {NAME: self._runner, file: self._folder / file, **self._libraries}
            env = {"TVM_NUM_THREADS": str(self._threads)}
            self._remotes[file] = Remote(self._place, Program(files, (NAME, file), env))
        return self._remotes[file]

    def _load(self, file: str) -> Any:
        remote = self._remote(file)

        def call(feeds: list[Array]) -> list[Array]:
            self._last = remote
            return remote.run(feeds)

        return call

    def run(self, feeds: Arrays) -> dict[str, Any]:
        """See :meth:`Session.run`."""
        return self._session.run(feeds)

    def times(self, runs: int) -> list[float]:
        """See :meth:`TimedSession.times`."""
        assert self._last is not None  # noqa: S101  (something has been run)
        return self._last.times(runs)

    def peak_memory(self) -> int:
        """See :meth:`TimedSession.peak_memory`."""
        return max((remote.peak_memory() for remote in self._remotes.values()), default=0)

    def close(self) -> None:
        """See :meth:`Session.close`."""
        for remote in self._remotes.values():
            remote.close()


def _shipped(artifact: Artifact, folder: Path, platform: str) -> dict[str, Path]:
    """The runtime that lies beside the artifact, as it is shipped; else that of a toolchain.

    Artifacts of this host have none beside them, nor have those for Android, which it is not built for.
    """
    modules = [folder / name for name in artifact.files if name not in _ALL]
    needed = libraries_for(modules)
    if set(needed) <= set(artifact.files):
        return {name: folder / name for name in needed}
    return libraries_of(modules, platform)


def libraries_of(modules: Sequence[Path], platform: str) -> dict[str, Path]:
    """The runtime that ``modules`` need, from a toolchain.

    Raises:
        StageError: the toolchain is not installed.
    """
    needed = libraries_for(modules)
    if platform == host_platform():
        return _installed_libraries(needed)
    emulation = find_emulation()
    if emulation is None:
        raise StageError(
            f"TVM's runtime for {platform} is in the toolchain arm64-emulation, which is not installed; get it with "
            "`convert toolchain install arm64-emulation`"
        )
    return {name: emulation.runtime_libraries[name] for name in needed}


def _site_packages() -> Path:
    toolchain = find("tvm")
    if toolchain is None:
        raise StageError("the toolchain tvm is not installed; get it with `convert toolchain install tvm`")
    return toolchain.site_packages


def _installed_libraries(names: Sequence[str]) -> dict[str, Path]:
    packages = _site_packages()
    return {name: packages / PLACES[name] for name in names}


def runner_of(platform: str, libraries: Mapping[str, Path]) -> Path:
    """The program for ``platform``, compiled once."""
    emulation = find_emulation()
    zig = () if emulation is None else emulation.zig
    return runner_for(platform, _site_packages() / "tvm_ffi/include", libraries, zig, cache_root() / "runners")

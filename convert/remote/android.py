"""Programs on Android: there is no TVM runtime for Android's own C library, so glibc's loader comes along.

The program runs on the device's own CPU and kernel; what stays unproven is that Android's linker takes the module.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from convert.emulation import find_emulation
from convert.errors import StageError
from convert.remote.place import Program

LOADER = "ld-linux-aarch64.so.1"
#: What the runner and TVM's libraries ask for.
_LIBRARIES = (
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "librt.so.1",
)
#: The names that Android's modules ask for the same libraries by.
NAMES = {"libc.so": "libc.so.6", "libm.so": "libm.so.6", "libdl.so": "libdl.so.2"}


def adapted(program: Program) -> Program:
    """``program`` with glibc beside it, started by glibc's loader.

    Raises:
        StageError: it is a Python program, or there is no sysroot to take the libraries from.
    """
    if program.words[0] == "{python}":
        raise StageError(
            "Android has no Python to open the artifact with; prove it with --platform linux/arm64 instead"
        )
    emulation = find_emulation()
    if emulation is None:
        raise StageError(
            "running on Android needs glibc from the toolchain arm64-emulation; get it with "
            "`convert toolchain install arm64-emulation`"
        )
    files = dict(program.files)
    for name in (LOADER, *_LIBRARIES):
        files[name] = library(emulation.sysroot, name)
    for theirs, ours in NAMES.items():
        files[f"android/{theirs}"] = files[ours]
    words = (LOADER, "--library-path", "{folder}:{folder}/android", f"./{program.words[0]}", *program.words[1:])
    return replace(program, files=files, words=words)


def library(sysroot: Path, name: str) -> Path:
    """A library of the sysroot; raises ``StageError`` where it has none of that name."""
    for folder in ("lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib", "usr/lib", "lib64"):
        if (sysroot / folder / name).exists():
            return (sysroot / folder / name).resolve()
    raise StageError(f"the sysroot {sysroot} has no {name}; install the toolchain arm64-emulation anew with --force")

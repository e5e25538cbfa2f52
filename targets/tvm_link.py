"""From TVM's objects to a shared library: which linker serves a platform, and how it is called."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convert.errors import StageError
from convert.platforms import PLATFORMS, host_platform

HOST_COMPILERS = ("g++", "clang++", "c++")
#: Android maps memory in pages of 16 KiB since version 15, and loads nothing that is laid out for less.
_ANDROID_PAGE = 16384
_ANDROID_LIBRARIES = ("libc.so", "libm.so")
_TIMEOUT_SECONDS = 600
_NDK = "ANDROID_NDK_HOME"


@dataclass(frozen=True)
class Linker:
    """A command that links shared libraries for one platform, and what to call it in the manifest.

    Attributes:
        bare: it is a linker, not a compiler that calls one.
    """

    words: tuple[str, ...]
    name: str
    bare: bool = False


def linker_for(platform: str, zig: Sequence[str] = ()) -> Linker | None:
    """What links for ``platform`` here; None where there is nothing.

    Args:
        platform: as ``os/arch``.
        zig: the words that start zig, where it is installed.
    """
    if platform == host_platform():
        return _first(HOST_COMPILERS)
    if platform.startswith("android/"):
        return _ndk() if os.environ.get(_NDK) else _lld(zig)
    known = PLATFORMS[platform]
    if known.compiler and shutil.which(known.compiler):
        return Linker((known.compiler,), known.compiler)
    # Nothing of C++ is in the objects, and zig would first build a library for it, which takes minutes.
    return Linker((*zig, "cc", "-target", known.zig), f"zig cc -target {known.zig}") if zig else None


def lacking(platform: str, zig: Sequence[str] = ()) -> str:
    """What must be installed to link for ``platform``; empty where nothing is missing."""
    if linker_for(platform, zig) is not None:
        return ""
    if platform == host_platform():
        return f"a C++ compiler to link with ({', '.join(HOST_COMPILERS)} are not on the PATH); install g++"
    if os.environ.get(_NDK) and platform.startswith("android/"):
        return (
            f"an NDK with aarch64-linux-android*-clang++, and {_NDK} is {os.environ[_NDK]!r}, which holds none; set it "
            "to the folder of an NDK, or unset it to link without one"
        )
    if platform.startswith("android/"):
        return (
            f"a linker for {platform}: set {_NDK}, or install lld, or run `convert toolchain install arm64-emulation`"
        )
    return (
        f"a cross compiler for {platform} ({PLATFORMS[platform].compiler} is not on the PATH); install it, or run "
        "`convert toolchain install arm64-emulation`"
    )


def _first(names: Sequence[str]) -> Linker | None:
    return next((Linker((name,), name) for name in names if shutil.which(name)), None)


def _ndk() -> Linker | None:
    found = sorted(Path(os.environ[_NDK]).glob("toolchains/llvm/prebuilt/*/bin/aarch64-linux-android[0-9]*-clang++"))
    if not found:
        return None
    # The oldest system that this NDK still builds for: its modules load on all the newer ones.
    oldest = min(found, key=lambda path: int("".join(c for c in path.name.split("android")[1] if c.isdigit())))
    return Linker((str(oldest),), f"NDK {oldest.name}")


def _lld(zig: Sequence[str]) -> Linker | None:
    if shutil.which("ld.lld"):
        return Linker(("ld.lld",), "ld.lld", bare=True)
    return Linker((*zig, "ld.lld"), "zig ld.lld", bare=True) if zig else None


def link(linker: Linker, platform: str, scratch: Path) -> Callable[..., None]:
    """A function that TVM calls with the library to make and the objects to make it of."""

    def call(output: str, objects: Sequence[str], **_: Any) -> None:
        if linker.bare:
            stubs = [str(path) for path in _android_stubs(linker, scratch)]
            pages = ("-z", f"max-page-size={_ANDROID_PAGE}", "--no-as-needed")
            run(linker, ["-shared", *pages, "-o", output, *objects, *stubs], platform)
        elif platform.startswith("android/"):
            run(
                linker,
                ["-shared", "-fPIC", f"-Wl,-z,max-page-size={_ANDROID_PAGE}", "-o", output, *objects, "-lm"],
                platform,
            )
        else:
            run(linker, ["-shared", "-fPIC", "-o", output, *objects, "-lm"], platform)

    return call


def _android_stubs(linker: Linker, scratch: Path) -> list[Path]:
    """Empty libraries by the names of Android's own, so that the module asks for these when it is loaded."""
    made = []
    for name in _ANDROID_LIBRARIES:
        stub = scratch / name
        empty = scratch / "empty.ld"
        empty.write_text("\n", encoding="utf-8")
        run(
            linker,
            ["-m", "aarch64linux", "-shared", "-soname", name, "-o", str(stub), "--format=binary", str(empty)],
            "android/arm64",
        )
        made.append(stub)
    return made


def run(linker: Linker, words: Sequence[str], platform: str, env: Mapping[str, str] | None = None) -> None:
    """Call ``linker`` with ``words``.

    Raises:
        StageError: it failed; with its last line.
    """
    # zig keeps what it has built itself; a home that cannot be written to must not matter.
    settings = {"ZIG_LOCAL_CACHE_DIR": str(Path.cwd() / "zig"), **os.environ, **(env or {})}
    ended = subprocess.run(
        [*linker.words, *words], capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS, env=settings
    )
    if ended.returncode != 0:
        lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
        wrong = next((line for line in lines if "error" in line), lines[-1] if lines else "no output")
        raise StageError(f"{linker.name} cannot link for {platform}: {wrong[:300]}")


def write_objects(archive: Path, objects: Sequence[str]) -> None:
    """Keep ``objects`` in ``archive``, for those who link them into an app of their own."""
    with tarfile.open(archive, "w") as tar:
        for path in objects:
            info = tarfile.TarInfo(Path(path).name)
            info.size = Path(path).stat().st_size
            with Path(path).open("rb") as source:
                tar.addfile(info, source)

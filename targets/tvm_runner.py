"""The program that holds a TVM module elsewhere: compiled once per platform and kept in the cache folder."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from convert.errors import StageError
from convert.targets import tvm_link

SOURCE = Path(__file__).resolve().parent / "native" / "tvm_runner.c"
NAME = "tvm_runner"
LIBRARIES = ("libtvm_runtime.so", "libtvm_ffi.so")
#: Only for modules that call what is in it, such as sorting.
EXTRA = "libtvm_runtime_extra.so"
_CALLED = b"tvm.contrib."


def libraries_for(modules: Iterable[Path]) -> tuple[str, ...]:
    """Names of the libraries that must be there to run ``modules``, whose calls stand in them by name."""
    extra = any(_CALLED in module.read_bytes() for module in modules)
    return (*LIBRARIES, EXTRA) if extra else LIBRARIES


def runner_for(platform: str, headers: Path, libraries: Mapping[str, Path], zig: Sequence[str], cache: Path) -> Path:
    """The program for ``platform``.

    Args:
        platform: as ``os/arch``; Android's is the one for Linux, since there is no runtime for Android itself.
        headers: folder of ``tvm/ffi`` and ``dlpack``.
        libraries: TVM's runtime libraries for the platform by name.
        zig: the words that start zig, where it is installed.
        cache: folder that it is kept in.

    Raises:
        StageError: there is no compiler, or it fails.
    """
    platform = platform.replace("android/", "linux/")
    missing = tvm_link.lacking(platform, zig)
    if missing:
        raise StageError(f"running a TVM module elsewhere needs {missing}")
    linker = tvm_link.linker_for(platform, zig)
    assert linker is not None  # noqa: S101  (nothing is lacking)
    kept = cache / f"{NAME}-{_key(platform, linker, headers)}"
    if not kept.is_file():
        _compile(linker, platform, headers, libraries, kept)
    return kept


def _key(platform: str, linker: tvm_link.Linker, headers: Path) -> str:
    digest = hashlib.sha256(SOURCE.read_bytes())
    for part in (platform, linker.name, (headers / "tvm/ffi/c_api.h").read_text(encoding="utf-8")):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]


def _compile(linker: tvm_link.Linker, platform: str, headers: Path, libraries: Mapping[str, Path], kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        made = Path(folder) / NAME
        # The runtime registers the virtual machine when it is loaded; nothing in the program names it.
        whole = ("-Wl,--no-as-needed", *(str(libraries[name]) for name in LIBRARIES))
        find = ("-Wl,-rpath,$ORIGIN", "-s", "-pthread", "-ldl")
        # The libraries of a foreign platform ask for others that only its own root filesystem has.
        loose = ("-Wl,--allow-shlib-undefined",)
        # C also for a compiler that takes it for C++ by its own name.
        source = ("-x", "c", "-std=c11", "-D_GNU_SOURCE", str(SOURCE), "-x", "none")
        words = ["-O2", f"-I{headers}", *source, "-o", str(made), *whole, *find, *loose]
        tvm_link.run(linker, words, platform, {"ZIG_GLOBAL_CACHE_DIR": str(kept.parent / "zig")})
        os.replace(made, kept)

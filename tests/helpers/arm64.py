"""Root filesystems of arm64 that hold no more than what is looked at, and programs of Debian that make them."""

from __future__ import annotations

import sys
from pathlib import Path

ELF = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x03\0"
ARM64, X86_64 = ELF + b"\xb7\0", ELF + b"\x3e\0"

_APT = """#!{python}
import pathlib, sys
if "update" in sys.argv:
    {update}
else:
    cache = next(a for a in sys.argv if a.startswith("Dir::Cache=")).partition("=")[2]
    for name in ("tiny_1_arm64.deb", "qemu_1_amd64.deb"):
        pathlib.Path(cache, "archives", name).touch()
    print(" ".join(sys.argv))
"""
_DPKG = """#!{python}
import pathlib, sys
_, archive, folder = sys.argv[1:]
root = pathlib.Path(folder)
if "arm64" in archive:
    (root / "usr/bin/python3.11").write_bytes({elf!r})
    (root / "lib/ld-linux-aarch64.so.1").touch()
    (root / "usr/lib/absolute").symlink_to("/usr/bin/python3.11")
else:
    (root / "usr/share/doc").mkdir(parents=True)
    for name in ("qemu-aarch64-static", "qemu-arm-static"):
        (root / "usr/bin" / name).write_text({qemu!r})
        (root / "usr/bin" / name).chmod(0o755)
"""


def write_sysroot(folder: Path, python: str = "3.11", header: bytes = ARM64) -> Path:
    """What is looked at in a root filesystem."""
    (folder / "usr/bin").mkdir(parents=True)
    (folder / f"usr/bin/python{python}").write_bytes(header)
    (folder / "lib").mkdir()
    (folder / "lib/ld-linux-aarch64.so.1").touch()
    return folder


def write_program(folder: Path, name: str, text: str = "#!/bin/sh\n") -> Path:
    """A script in ``folder``, which is made where it is missing."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    (folder / name).chmod(0o755)
    return folder / name


def write_debian(folder: Path, update: str = "pass", qemu: str = "#!/bin/sh\n") -> None:
    """An apt-get and a dpkg-deb in ``folder``; ``update`` is what the first does at first, ``qemu`` the emulator."""
    write_program(folder, "apt-get", _APT.format(python=sys.executable, update=update))
    write_program(folder, "dpkg-deb", _DPKG.format(python=sys.executable, elf=ARM64, qemu=qemu))

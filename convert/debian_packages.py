"""Debian packages of any architecture, unpacked into folders: no root, and nothing of the machine is changed.

apt-get works with lists, a package state and a cache of its own; sources, keys and proxies are the machine's, so
signatures are checked as always.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from convert.logs import tail

# Runs a command; the second argument says what it does, the third why it failed, from its log and exit code.
Run = Callable[[list[str], str, Callable[[Path, int], str]], None]

NEEDED = ("apt-get", "dpkg-deb")

# Cleared are settings that lists of the machine would only add to, and commands that it runs for its own sake.
_SETTINGS = """\
#clear APT::Architectures;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Architecture "arm64";
APT::Architectures { "arm64"; "amd64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
"""


def missing_programs() -> list[str]:
    """Those of the programs of Debian that are needed and not there."""
    return [name for name in NEEDED if shutil.which(name) is None]


def download(packages: tuple[str, ...], work: Path, run: Run, way_out: str) -> list[Path]:
    """Fetch ``packages`` for arm64 (``NAME:amd64`` for this machine) and all they need into the folder ``work``.

    ``way_out`` ends the message when there are no such packages.
    """
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    (work / "apt.conf").write_text(_SETTINGS, encoding="utf-8")
    (work / "status").touch()

    def complaint(log: Path, code: int) -> str:
        return f"{apt_complaint(log, code)}; {way_out}"

    places = {"Dir::State": work / "state", "Dir::State::status": work / "status", "Dir::Cache": work / "cache"}
    options = [word for key, path in places.items() for word in ("-o", f"{key}={path}")]
    apt = ["apt-get", "-c", str(work / "apt.conf"), "-q", "-y", *options]
    run([*apt, "update"], "reading the lists of Debian packages", complaint)
    run([*apt, "install", "--download-only", *packages], "downloading Debian packages", complaint)
    return sorted((work / "cache/archives").glob("*.deb"))


def apt_complaint(log: Path, code: int) -> str:
    """The line that says best why apt-get or dpkg-deb failed."""
    lines = tail(log, 200)
    for start in ("E: ", "dpkg-deb: error: "):
        said = [line.removeprefix(start) for line in lines if line.startswith(start)]
        if said:
            return f"{'apt-get' if start == 'E: ' else 'dpkg-deb'} says: {said[0]}"
    return lines[-1] if lines else f"it ended with exit code {code} and no output"


def unpack(archives: list[Path], folder: Path, run: Run) -> None:
    """Unpack Debian ``archives`` into ``folder``, as a root filesystem that works where it is."""
    for name in ("bin", "lib", "sbin"):
        # Newer releases have their files under usr alone, and leave these links to a package that nothing needs.
        (folder / "usr" / name).mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(f"usr/{name}")
    for archive in archives:
        run(["dpkg-deb", "-x", str(archive), str(folder)], "unpacking Debian packages", apt_complaint)
    make_links_relative(folder)


def make_links_relative(root: Path) -> None:
    """Let each link in ``root`` that starts at ``/`` point to the same place under ``root``."""
    for parent, folders, files in os.walk(root):
        for link in (Path(parent, name) for name in (*folders, *files)):
            if link.is_symlink() and link.readlink().is_absolute():
                target = root / link.readlink().relative_to("/")
                link.unlink()
                link.symlink_to(os.path.relpath(target, parent))

"""Making an environment: a virtual environment, pip with exact versions, and a mark at the very end.

Each try has a folder of its own, and only a marked folder counts. A try that was cut off, even one whose pip still
runs after its parent was killed, can therefore never be taken for an installation; the next one clears it away.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock

from convert import emulation_install
from convert import toolchain_env as env
from convert.errors import ConvertError
from convert.logs import tail
from convert.toolchain_env import Environment, Toolchain

_HEARTBEAT_SECONDS = 5.0
_GRACE_SECONDS = 3.0
_LINE_WIDTH = 90
_STEPS = ("Collecting", "Downloading", "Using cached", "Building", "Preparing", "Installing", "Successfully")
# Settings of the user's pip that would put the packages somewhere else.
_MISLEADING = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON")


def make(toolchain: Toolchain, say: Callable[[str], None], force: bool) -> Environment:
    """Install ``toolchain`` into the cache folder, unless it is there; ``force`` makes it anew.

    Raises:
        ConvertError: the environment could not be made; nothing of it is left.
    """
    try:
        with _locked(toolchain, say):
            # Another process may have made it while this one waited.
            present = None if force else env.cached(toolchain)
            return present or _replace(toolchain, say)
    except OSError as error:
        raise ConvertError(
            f"the toolchain {toolchain.name} could not be installed into {env.home(toolchain.name)} "
            f"({error.strerror or error}); free space there, or set CONVERT_CACHE to another folder"
        ) from error


def _replace(toolchain: Toolchain, say: Callable[[str], None]) -> Environment:
    """Make a new environment, and only then delete the ones that it replaces."""
    before = env.environment_folders(toolchain)
    for folder in before:
        if not env.is_complete(folder):
            _delete(folder)
    _fresh(toolchain, say)
    for folder in before:
        _delete(folder)
    made = env.cached(toolchain)
    if made is None:  # it was whole a moment ago, so somebody else is deleting here
        raise ConvertError(f"the toolchain {toolchain.name} was installed but is gone again; install it once more")
    return made


def wipe(toolchain: Toolchain) -> bool:
    """Remove every environment of ``toolchain``, of whatever pins; whether there was any."""
    if not env.home(toolchain.name).is_dir():
        return False
    with _locked(toolchain, lambda _: None):
        folders = [path for path in env.home(toolchain.name).iterdir() if path.is_dir()]
        found = any(env.is_complete(folder) for folder in folders)
        for folder in folders:
            _delete(folder)
    return found


def _fresh(toolchain: Toolchain, say: Callable[[str], None]) -> None:
    """Make one new environment, whole or not at all."""
    sysroot = emulation_install.own_sysroot() if toolchain.system_packages else None
    folder = Path(tempfile.mkdtemp(prefix=f"{env.fingerprint(toolchain)}-", dir=env.home(toolchain.name)))
    log = env.log_file(toolchain.name)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    try:
        say(f"{toolchain.name}: making an environment in {folder}")
        _run([sys.executable, "-I", "-m", "venv", str(folder)], toolchain, log, say)
        _run(_pip_command(toolchain, env.interpreter(folder)), toolchain, log, say)
        _require_pins(toolchain, folder, log)
        if toolchain.system_packages:
            emulation_install.add(
                toolchain, folder, sysroot, lambda command, doing, why: _run(command, toolchain, log, say, doing, why)
            )
        env.mark_complete(folder)
    except BaseException:  # Ctrl-C too: an environment of gigabytes must not be left behind
        _delete(folder)
        raise


def _pip_command(toolchain: Toolchain, python: Path) -> list[str]:
    constraints = str(env.constraints_file(toolchain.name))
    options = ["--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--constraint", constraints]
    return [str(python), "-I", "-u", "-m", "pip", "install", *options, *toolchain.requirements]


def _require_pins(toolchain: Toolchain, folder: Path, log: Path) -> None:
    packages = env.site_packages(env.interpreter(folder))
    found = env.installed([] if packages is None else [packages], toolchain.shown)
    wanted = env.pins(toolchain.name)
    for name in toolchain.shown:
        version = found[name][0] if name in found else "missing"
        if version != wanted[env.normalise(name)]:
            raise ConvertError(
                f"the toolchain {toolchain.name} was not installed: {name} is {version} where "
                f"{wanted[env.normalise(name)]} was asked for; the whole output is in {log}"
            )


def _run(
    command: list[str],
    toolchain: Toolchain,
    log: Path,
    say: Callable[[str], None],
    doing: str = "",
    complaint: Callable[[Path, int], str] | None = None,
) -> None:
    """Run ``command`` with its output in ``log``, telling ``say`` now and then what it does.

    That is ``doing``, or what the output of pip tells; ``complaint`` says from log and exit code why it failed.
    """
    settings = {key: value for key, value in os.environ.items() if key not in _MISLEADING} | {"PIP_USER": "0"}
    start = time.monotonic()
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=settings,
            start_new_session=True,
        )
        try:
            while (code := _wait(process)) is None:
                say(f"{toolchain.name}: {doing or _doing(log)} ({time.monotonic() - start:.0f} s)")
        finally:
            _end(process)
    if code != 0:
        raise ConvertError(
            f"the toolchain {toolchain.name} could not be installed: {(complaint or pip_complaint)(log, code)}; "
            f"the whole output is in {log}"
        )


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_HEARTBEAT_SECONDS)
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and its children, if it still runs."""
    if process.poll() is not None:
        return
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)


def _doing(log: Path) -> str:
    """The newest step that the log speaks of, without the address and the platform tags of a file."""
    for line in reversed(tail(log, 50)):
        if line.startswith("Installing collected packages"):
            return "Installing collected packages"
        if line.startswith(_STEPS):
            return re.sub(r"\S*/(?=\S)|-(?:cp|py)\d\S*\.whl", "", line)[:_LINE_WIDTH]
    return "starting"


def pip_complaint(log: Path, code: int) -> str:
    """The line that says best why pip failed."""
    lines = tail(log, 200)
    # With constraints pip calls it a conflict, too, when a pinned release is simply not to be had.
    pinned = {name for line in lines if line.startswith("The user requested (constraint)") for name in line.split()[4:]}
    broken = [line for line in lines if line.startswith("WARNING: Retrying (Retry(total=0,")]
    if broken:
        why = re.search(r"Read timed out|Failed to [^'\"]*|\[Errno [^'\")]*", broken[-1])
        return f"pip cannot reach the package index ({why[0] if why else broken[-1][:_LINE_WIDTH]}); check the network"
    if pinned:
        return (
            f"pip found no release that fits {', '.join(sorted(pinned))}, so the package index cannot be reached or "
            f"lacks it, or it is not made for Python {platform.python_version()} on this system"
        )
    for index in range(len(lines) - 1, -1, -1):
        if lines[index].startswith("×"):
            return " ".join(line.lstrip("×╰─> ") for line in lines[index : index + 2])
        if lines[index].startswith("ERROR:"):
            return lines[index].removeprefix("ERROR:").strip()
    return lines[-1] if lines else f"it ended with exit code {code} and no output"


def _delete(folder: Path) -> None:
    # The mark goes first, so that a deletion that is cut off leaves nothing that counts.
    env.unmark(folder)
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(toolchain: Toolchain, say: Callable[[str], None]) -> Iterator[None]:
    folder = env.home(toolchain.name)
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder / "lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        say(f"{toolchain.name}: another process is at it, waiting for its end")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()

"""A device that is a folder of this machine: an ``adb`` that really runs the commands, and programs to run there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

#: Runs ``adb -s SERIAL shell -T SCRIPT`` here, with the device's folder for files in the place of Android's.
ADB = r"""#!/usr/bin/env bash
[ "$1" = -s ] && [ "$3" = shell ] && [ "$4" = -T ] || { echo "adb: unknown words $*" >&2; exit 1; }
[ "$2" = emulator-5554 ] || { echo "error: device '$2' not found" >&2; exit 1; }
echo $$ >> "$FAKE_DEVICE/pids"
exec sh -c "${5//\/data\/local\/tmp/$FAKE_DEVICE/files}"
"""

#: Speaks the frames: gives back what it gets, and does what a feed of one value says.
ECHO = r"""
import os, signal, struct, sys, time

def take(size):
    data = b""
    while len(data) < size:
        part = sys.stdin.buffer.read(size - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data

def say(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()

say(b"H" + struct.pack("<I", 1))
while True:
    letter = take(1)
    if letter == b"R":
        count = take(4)
        tensors = b""
        for _ in range(struct.unpack("<I", count)[0]):
            head = take(6)
            axes, code, bits = struct.unpack("<IBB", head)
            sizes = take(8 * axes)
            elements = 1
            for size in struct.unpack(f"<{axes}q", sizes):
                elements *= size
            values = take(elements * bits // 8)
            tensors += head + sizes + values
        mood = os.environ.get("MOOD", "")
        if mood == "illegal":
            os.kill(os.getpid(), signal.SIGILL)
        if mood == "noise":
            say(b"warning: hot\n")
        if mood == "complain":
            say(b"E" + struct.pack("<I", 8) + b"too warm")
            sys.exit(2)
        if mood == "hang":
            time.sleep(600)
        say(b"K" + count + tensors)
    elif letter == b"T":
        runs = struct.unpack("<I", take(4))[0]
        say(b"T" + struct.pack(f"<I{runs}d", runs, *[0.25] * runs))
    elif letter == b"M":
        say(b"M" + struct.pack("<Q", 3 << 20))
"""


def make_device(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a fake ``adb`` first on the PATH; gives the folder that stands for the device's ``/data/local/tmp``."""
    files = folder / "files"
    files.mkdir(parents=True)
    programs = folder / "bin"
    programs.mkdir()
    adb = programs / "adb"
    adb.write_text(ADB)
    adb.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_DEVICE", str(folder))
    return files

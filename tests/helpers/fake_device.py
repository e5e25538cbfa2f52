"""A device that is a folder of this machine: an ``adb`` that really runs the commands, and programs to run there."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from helpers.arm64 import write_program

#: Speaks the frames: gives back what it gets, and does what a feed of one value says.
ECHO = r"""
import os, signal, struct, sys

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
            take(1)  # until the line is cut
        say(b"K" + count + tensors)
    elif letter == b"T":
        runs = struct.unpack("<I", take(4))[0]
        say(b"T" + struct.pack(f"<I{runs}d", runs, *[0.25] * runs))
    elif letter == b"M":
        say(b"M" + struct.pack("<Q", 3 << 20))
"""


def make_device(folder: Path, monkeypatch: pytest.MonkeyPatch, path: str = os.environ["PATH"]) -> Path:
    """Put a fake ``adb`` first on the PATH; ``path`` is the PATH on the device.

    Gives the folder that stands for the device's ``/data/local/tmp``.
    """
    (folder / "files").mkdir(parents=True)
    command = shlex.join([sys.executable, str(Path(__file__).with_name("fake_adb.py")), str(folder), path])
    write_program(folder / "bin", "adb", f'#!/bin/sh\nexec {command} "$@"\n')
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return folder / "files"

"""Stands for the program ``adb``: ``fake_adb.py DEVICE PATH -s SERIAL shell -T SCRIPT`` runs the script on this host.

``DEVICE`` is the folder that is the device, with ``files`` in the place of Android's ``/data/local/tmp``; ``PATH`` is
where programs are looked for on it. Like the real client this one only passes on what is said: the line is cut where
it is killed. A file ``cut`` in the folder holds a word and two numbers: of the scripts with that word, so many are
answered in full; so many bytes of the next answer come through, then the device is gone as seen from here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

SERIAL = "emulator-5554"


def main(device: Path, path: str, words: list[str]) -> int:
    """Run one command; gives the exit status."""
    if len(words) != 5 or (words[0], *words[2:4]) != ("-s", "shell", "-T"):
        sys.exit(f"adb: unknown words {words}")
    if words[1] != SERIAL or (device / "gone").exists():
        sys.exit(f"error: device '{words[1]}' not found")
    with (device / "pids").open("a") as file:
        print(os.getpid(), file=file)
    script = words[4].replace("/data/local/tmp", str(device / "files"))
    # What is set here is not set there.
    environment = {"PATH": path, "HOME": str(device)}
    # In a session of its own, as on another machine: what ends the client's processes must not reach it.
    child = subprocess.Popen(
        ["sh", "-c", script], stdin=-1, stdout=-1, stderr=-1, cwd=device, env=environment, start_new_session=True
    )
    ends = (child.stdin, child.stdout, child.stderr)
    feed, answer, errors = (end.fileno() for end in ends if end is not None)
    threading.Thread(target=to_device, args=(feed,), daemon=True).start()
    complaints = threading.Thread(target=copy, args=(errors, 2))
    complaints.start()
    copy(answer, 1, device, limit_of(device, script))
    complaints.join()
    code = child.wait()
    return 128 - code if code < 0 else code


def to_device(sink: int) -> None:
    """Pass on what comes, and its end."""
    copy(0, sink)
    os.close(sink)


def limit_of(device: Path, script: str) -> int | None:
    """How many bytes of the answer to ``script`` come through; None for all."""
    if not (device / "cut").exists():
        return None
    word, whole, limit = (device / "cut").read_text().split()
    if word not in script:
        return None
    (device / "cut").write_text(f"{word} {int(whole) - 1} {limit}")
    return None if int(whole) else int(limit)


def copy(source: int, sink: int, device: Path | None = None, limit: int | None = None) -> None:
    """Pass on what comes from ``source``, but no more than ``limit`` bytes of it."""
    with contextlib.suppress(BrokenPipeError):
        while data := os.read(source, 65536):
            sent = data[:limit]
            while sent:
                sent = sent[os.write(sink, sent) :]
            if limit is not None and device is not None:
                limit -= len(data)
                if limit <= 0:
                    (device / "gone").touch()
                    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    status = main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
    # The thread that waits for input that never comes must not be waited for.
    os._exit(status)
